package fair

import (
	"strings"

	"github.com/fairlimit/fairlimit/lua"
)

// scripts has one script for each operation.
type scripts struct {
	take, share, release, status, reset, look, quotas, pause, pauseFlow, set *lua.Script
}

// Parts that several scripts have in common. Those in braces run only if the
// question or the state is unusual: see lua/fair/open.lua.
const (
	opens    = " fields open "
	restores = " header clock epochs narrow cells recover "
	unusual  = " {" + restores + "windows } "
)

// lookForQuotas tells which quotas are stored.
var lookForQuotas = assemble("head quota" + opens + "{" + restores + "} look write news")

// allScripts are assembled of the parts in lua/fair.
var allScripts = scripts{
	take:    assemble("head" + opens + unusual + "grant compact write take"),
	share:   assemble("head" + opens + unusual + "flows ceiling grant compact active write share"),
	release: assemble("head" + opens + restores + "begin release compact write given"),
	status:  assemble("head" + opens + "still" + unusual + "grant cells status write stands"),
	reset:   assemble("head fields forget header clock epochs begin reset write news"),
	look:    assemble("head" + opens + "{" + restores + "} look write news"),
	quotas:  lookForQuotas,
	pause:   assemble("head" + opens + restores + "begin pause write told"),

	pauseFlow: assemble("head" + opens + restores + "begin pauseflow write told"),
	set:       assemble("head" + opens + "always" + restores + "set windows begin write news"),
}

// storedScripts are those of a limiter that looks for stored quotas: whatever
// depends on its quotas makes sure that they are those that are stored.
var storedScripts = scripts{
	take:    assemble("head quota" + opens + unusual + "grant compact write take"),
	share:   assemble("head quota" + opens + unusual + "flows ceiling grant compact active write share"),
	release: allScripts.release,
	status:  assemble("head quota" + opens + "still" + unusual + "grant cells status write stands"),
	reset:   allScripts.reset,
	look:    lookForQuotas,
	quotas:  lookForQuotas,
	pause:   allScripts.pause,

	pauseFlow: allScripts.pauseFlow,
	set:       allScripts.set,
}

func assemble(parts string) *lua.Script { return lua.Assemble("fair", strings.Fields(parts)...) }
