package fair

import (
	"strings"

	"github.com/fairlimit/fairlimit/lua"
)

// scripts has one script for each operation. Those of the last line are for
// queues that count further units.
type scripts struct {
	take, share, release, status, reset, look, quotas, pause, pauseFlow, set *lua.Script
	probe                                                                    *lua.Script
	amounts, amountsShare, statusAmounts, settle, observe                    *lua.Script
}

// Parts that several scripts have in common. Those in braces run only if the
// question or the state is unusual: see lua/fair/open.lua. Those in brackets run
// for one log after the other: see lua/fair/units.lua.
const (
	opens    = " fields ( open ) "
	reads    = " header clock epochs narrow "
	recovers = " cells lost resets ( recover ) "
	restores = reads + recovers
	restored = " (" + restores + "others mend blocks ) "
	mended   = " {" + restores + "others mend windows blocks } "
	unusual  = " {" + restores + "others windows } "
	counts   = " sum write count "
)

// lookForQuotas tells which quotas are stored.
var lookForQuotas = assemble("head quota" + opens + "{" + restores + "} look write news")

// allScripts are assembled of the parts in lua/fair.
var allScripts = scriptsFrom("head", "")

// storedScripts are those of a limiter that looks for stored quotas: whatever
// may count something again makes sure that its quotas are those that are stored.
var storedScripts = scriptsFrom("head quota", "obeys ")

func scriptsFrom(head, obeys string) scripts {
	s := scripts{
		reset:  assemble("head fields forget header clock epochs begin reset write news"),
		quotas: lookForQuotas,
		set:    assemble("set"),
		probe:  assemble("probe"),
	}
	s.look = assemble(head + opens + "{" + reads + obeys + recovers + "} look write news")
	s.pause = assemble(head + opens + restores + "begin pause write told")
	s.pauseFlow = assemble(head + opens + restores + "begin pauseflow write told")
	s.release = assemble(head + opens + restores + "begin tails release shorten compact write told")
	s.settle = assemble(head + opens + "keep units" + restored +
		"debts [ grant compact owed ] refunds [ begin release compact released ] shorten" + counts + "settled")
	s.take = assemble(head + opens + unusual + "rest grant compact write take")
	s.share = assemble(head + opens + unusual + "flows rest ( ceiling ) grant compact active write entries share")
	s.status = assemble(head + opens + "still" + unusual + "rest grant cells status write stands")

	s.amounts = assemble(head + opens + "units" + mended + "rest amounts [ grant compact taken ]" +
		counts + "turns")
	s.amountsShare = assemble(head + opens + "units" + mended + "flows rest ( ceiling ) amounts" +
		" [ grant compact taken ] sum active write count entries turns")
	s.statusAmounts = assemble(head + opens + "still units" + mended + "rest each [ grant cells status seen ]" +
		counts + "stand")
	s.observe = assemble(head + opens +
		"units (" + restores + "others mend windows blocks )" +
		" each [ grant status seen ] observe [ grant compact owed ]" + counts + "settled")
	return s
}

func assemble(parts string) *lua.Script { return lua.Assemble("fair", strings.Fields(parts)...) }
