package fair

import (
	"strings"

	"github.com/fairlimit/fairlimit/lua"
)

// scripts has one script for each operation.
type scripts struct {
	take, release, status, reset *lua.Script
}

// allScripts are assembled of the parts in lua/fair. What several of them need
// is written once there: how a state is read and written, whose windows count,
// what was lost, and how a log is compacted.
var allScripts = scripts{
	take:    assemble("head open hot log windows grid histogram cells behind compact add recover begin write grant take"),
	release: assemble("head open log windows grid histogram cells behind compact add recover begin write release"),
	status:  assemble("head open log windows grid histogram cells behind compact add recover begin write grant status"),
	reset:   assemble("head forget log windows grid histogram cells behind compact add recover write reset"),
}

func assemble(parts string) *lua.Script { return lua.Assemble("fair", strings.Fields(parts)...) }
