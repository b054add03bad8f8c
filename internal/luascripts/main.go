// Command luascripts writes every script of the engines to a folder, as Redis
// gets it, for luacheck. A script need not use all that its parts have, which
// would be 211 and 231:
//
//	go run ./internal/luascripts "$folder"
//	luacheck -q --std lua51 --read-globals redis KEYS ARGV \
//		--max-line-length 120 --ignore 211 231 -- "$folder"
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/lua"
	_ "github.com/fairlimit/fairlimit/window"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: luascripts folder")
		os.Exit(2)
	}
	for _, script := range lua.Assembled() {
		name := strings.ReplaceAll(strings.Join(script.Parts(), "+"), "/", "-") + ".lua"
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(script.Source()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
