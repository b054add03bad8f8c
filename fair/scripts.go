package fair

import "github.com/fairlimit/fairlimit/lua"

// scripts has one script for each operation.
type scripts struct {
	take, release, status, reset *lua.Script
}

// allScripts are assembled of the parts in lua/fair. What several of them need
// is written once there: how a state is read and written, whose windows count,
// what was lost, and how a log is compacted.
var allScripts = scripts{
	take: lua.Assemble("fair", "head", "open", "hot", "log", "windows", "compact", "recover", "begin", "write", "grant",
		"take"),
	release: lua.Assemble("fair", "head", "open", "log", "windows", "compact", "recover", "begin", "write", "release"),
	status: lua.Assemble("fair", "head", "open", "log", "windows", "compact", "recover", "begin", "write", "grant",
		"status"),
	reset: lua.Assemble("fair", "head", "forget", "log", "windows", "compact", "recover", "write", "reset"),
}
