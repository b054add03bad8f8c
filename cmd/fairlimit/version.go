package main

import (
	"cmp"
	"context"
	"flag"
	"runtime"
	"runtime/debug"
)

var versionCommand = command{
	name: "version", does: "print the version of this program",
	define: func(*flag.FlagSet) action {
		return func(_ context.Context, c *call) error {
			version := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
			}
			c.printf("fairlimit %s %s %s/%s\n",
				cmp.Or(version, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}
	},
}
