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
// unit, such as tokens, has one more log. The guard makes every T longer.
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
//
// The head has nine words, times in microseconds:
//
//	1767225600000000 0 0 0 1767225603000000 1050000 1767225609450000 10 calls
//	id               void   last            span    tail             total units
//	                   from
//	                     offset
//
// The queue began at id. Turns of an older id with a slot after void are void; 0
// says that none are. Its clock shows the server's time less the offset, and shows
// nothing before from. It was written at last. No permit counts for longer than
// span. The newest slot is tail, and total is how many permits were granted.
//
// A cell of a log is a slot, and as its score the total of permits granted up to
// it. The oldest cell is the base: what is up to it counts no more. So this log
// has three permits in one turn, and one in the next:
//
//	> ZRANGE fairlimit:{tax-office}:calls 0 -1 WITHSCORES
//	1) "0"                 2) "0"
//	3) "1767225600000000"  4) "3"
//	5) "1767225601050000"  6) "4"
//
// A log has at most 512 cells. Cells that stand close together are joined then: all
// permits of both count at the newer one.
package fair
