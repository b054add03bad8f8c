package fair

import (
	"strings"

	"github.com/fairlimit/fairlimit/lua"
)

// scripts has one script for each operation.
type scripts struct {
	take, share, release, status, reset, look, pause, set *lua.Script
}

// Parts that several scripts have in common: how a state is read and written,
// whose windows count, what was lost, and how a log is compacted.
const (
	reads  = " open notes clock log "
	logs   = " windows grid histogram cells behind compact add epochs recover "
	writes = " begin write "
)

// allScripts are assembled of the parts in lua/fair.
var allScripts = scripts{
	take:    assemble("head open hot notes clock log" + logs + writes + "grant take"),
	share:   assemble("head" + reads + logs + writes + "grant flows share"),
	release: assemble("head" + reads + logs + writes + "release"),
	status:  assemble("head" + reads + logs + writes + "grant status"),
	reset:   assemble("head forget notes clock log" + logs + "write reset"),
	look:    assemble("head peek notes clock look"),
	pause:   assemble("head" + reads + logs + writes + "pause"),
	set:     assemble("head renew" + reads + logs + "begin narrow write set"),
}

// storedScripts are those of a limiter that looks for stored quotas: whatever
// depends on its quotas makes sure that they are those that are stored.
var storedScripts = scripts{
	take:    assemble("head quota open hot notes clock log" + logs + "begin narrow write grant take"),
	share:   assemble("head quota" + reads + logs + "begin narrow write grant flows share"),
	release: allScripts.release,
	status:  assemble("head quota" + reads + logs + "begin narrow write grant status"),
	reset:   allScripts.reset,
	look:    assemble("head quota peek notes clock look"),
	pause:   allScripts.pause,
	set:     allScripts.set,
}

func assemble(parts string) *lua.Script { return lua.Assemble("fair", strings.Fields(parts)...) }
