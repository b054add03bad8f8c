// Package fair is the engine that keeps a queue: first come, first served over
// all machines, each turn at the earliest slot that the quotas allow.
//
// # The rule
//
// A log holds who goes when: permit p counts at slot(p). A window of N permits in
// T lets a request for n permits go once the permit N before its last one has
// left the window:
//
//	slot = max(tail, clock, for each window: slot(total + n − N) + T)
//
// The tail is the newest slot, so nobody overtakes. A Burst is one more window. A
// unit, such as tokens, has one more log. A guard of J makes every T longer by J.
//
// # What Redis holds
//
// All keys of a queue share one hash slot. Anybody can read them:
//
//	fairlimit:{tax-office}         the head, with PSETEX: it lives as long as anything counts
//	fairlimit:{tax-office}:calls   the log of calls, a sorted set
//	fairlimit:{tax-office}:tokens  the log of a unit, likewise
//	fairlimit:{tax-office}:flows   the active flows, a sorted set
//	fairlimit:{tax-office}:flow:ID what one flow holds ahead, a log
//	fairlimit:{tax-office}:quota   the stored quotas as text, without a TTL
//	fairlimit:{tax-office}:quota:learned  what was learned in the last minute
//
// The head has nine words, times in microseconds:
//
//	1767225600000000  id        when the queue began, or was requeued last: turns carry it
//	0                 void      turns of an older id with a slot after it are void; 0: none is
//	0                 stood_at  the label at which the clock stood still last: it never shows less
//	0                 offset    the queue's clock shows the server's time less this
//	1767225600200000  written   the server's time at the last write
//	1050000           span      no permit counts for longer
//	1767225601050000  tail      the newest slot
//	4                 totals    the permits granted, of each log: "4,700"
//	calls             names     of the logs: "calls,tokens"
//
// A cell of a log is a member, which is a slot, and its score, which is the total of
// permits granted up to that slot. The oldest cell is the base: what is up to it
// counts no more. So this log has three permits at one slot, and one at the next:
//
//	> ZRANGE fairlimit:{tax-office}:calls 0 -1 WITHSCORES
//	1) "0"                 2) "0"
//	3) "1767225600000000"  4) "3"
//	5) "1767225601050000"  6) "4"
//
// A log has at most 512 cells. Cells that stand close together are joined then: all
// permits of both count at the newer one.
package fair
