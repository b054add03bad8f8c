// Package fair is the engine that grants turns in order: a reservation queue in
// one Redis key, whose TTL is the backlog and one Per.
//
// # The rule
//
// Granted slots s₁ ≤ s₂ ≤ … stay. A request for n permits at time t takes the
// smallest x ≥ max(t, last slot) for which, in every window of length T and
// size N, the permits with slots in (x−T, x] plus n are at most N. It is
// refused if x − t is more than it may wait. This is the rule of a sliding
// window log, kept over the future.
//
// # Words
//
//   - A reservation is permits granted at a slot, the time from which their
//     caller may use them. Status calls those that lie ahead queued.
//   - A window is at most so many permits in any stretch of so long. A quota is
//     one; its burst is another: Burst permits in Burst × Per ÷ Permits.
//   - The queue's clock is the server's, plus an offset that grows when the
//     server's goes back. It stands still while the queue is paused, which takes
//     from the offset. So slots are labels: whoever holds one keeps it, and news
//     of the queue tell when the clock comes there.
//   - A generation is the life of one state, and has a name of its own. The
//     sequence counts the permits granted in it.
//   - A position is generation, sequence and clock: where a limiter saw its
//     queue last. It is sent along with every question.
//   - The window log holds what may still count: cells, each the slot of its
//     last permit and the sequence up to it. All permits of a cell count at its
//     slot, which is the safe side.
//   - What has left the window is its base: a sequence, and the slot of the last
//     that left, the origin.
//   - A row is a cell of single permits that stand one length apart.
//   - A window is crowded after more than 130 distinct slots within its length.
//     Cells then lie on a grid, at least 64 to a length, and each takes what
//     falls into it up to its bound.
//   - Compacting folds what is further back than the window reaches into a
//     histogram, and merges cells on the grid.
//   - Recovering makes up for what a server has lost.
//   - Releasing gives permits back.
//   - A flow is those who share the queue by one weight. An entry is one limiter
//     of a flow. It is active until some grace after its newest slot. All that
//     are active share the look-ahead: what one may hold ahead is its share.
//   - A silence is a time in which nothing was written. What another server
//     granted meanwhile is not of this history.
//
// # The state
//
// PSETEX is the only write. The text is made to be read by a person, with GET,
// and by a script, at fixed places. This is 3 permits a second after five
// requests at one moment, in a key that has 2.001 s to live:
//
//	fair3 3/1000000 -                6                0                0 74 .:0123456   3
//	k3x9q2ab                5 1700000000123456 1700000001123456
//
// The first line is one window:
//
//	fair3              the version: of another one a script says STATE
//	3/1000000          the windows of the last caller, most/length in µs
//	-                  plain: one window, nothing else to remember
//	6                  room: up to this sequence the newest slot takes permits
//	0                  base, 0 as nothing has left the window
//	0                  origin
//	74                 digits of a cell: 7 of its slot, 4 of its sequence; a is 10
//	.                  mode of the newest cell: '.', 'r' for a row, or 'c' and
//	                   then bound, until when it is crowded, distinct slots so far
//	0123456   3        the closed cells: the last digits of slot and sequence
//
// Lines that begin with 'behind' and 'silent' may follow: the histogram, and
// the silences as their ends and lengths. The last line is the position, and
// the newest slot:
//
//	k3x9q2ab           generation
//	5                  sequence
//	1700000000123456   clock
//	1700000001123456   newest slot
//
// A state that is not plain has '+'. This is 20 permits a second with a Burst of
// 1, and 100 in 2 minutes, after six requests:
//
//	fair3 20/1000000/9600,1/50000/153600,100/120000000/120/2400 + 3 0 0 0 0 0
//	1000000 0 1700000000423456                0                0                0 74 .:0323456   5
//	50000 0 1700000000423456                0                5 1700000000323456 64 .:
//	120000000 0 1700000000423456                0                0                0 94 .:000323456   5
//	silent 1700000000423456 300000
//	3i7wfy7i                6 1700000000423456 1700000000423456
//
// A window's word goes on with its grid: cells, and laps if they differ, in the
// longest length. Behind '+' are how many windows there are, the offset, the end
// of the key if turns were given back, up to which slot what was lost counts as
// full, the end up to which nothing was lost but reset, and 1 if callers of
// other windows came. Each window has a line: length, idle since, newest slot,
// and then as above.
//
// While the clock does not run as the server's, there are three more numbers:
// how much longer it stands still, up to which label it runs slower, and how
// long a million of its microseconds take until then. This is the first state
// again, paused for 30 s:
//
//	fair3 3/1000000 + 1 -29999999 0 0 0 0 30000000 0 0
//	1000000 0 1700000001123456                6                0                0 74 .:0123456   3
//	v0c9s41m                5 1700000000123457 1700000001123456
//
// After the pause the offset stays below 0, until nothing counts any more. A
// library that knows nothing of pauses says STATE to such a state.
//
// # Flows
//
// While flows use the queue, there is a line of them before 'silent': up to when
// the last is active, and the entries: 5 letters of the flow and 3 of the
// limiter, weight, the most permits of one request, up to when it is active.
// This is the first state once more, with three permits of one flow and two of
// another that has twice the weight:
//
//	flows 1700000001630000 v4rrg00a/1/1/1700000000630000 lmxt100b/2/1/1700000001630000
//
// There are at most 64 entries, in at most 2,048 bytes. One more shares that of
// another, which its letters choose. Limiters without a flow leave the line as
// it is. It keeps the key until the last entry is over. A library that knows
// nothing of flows says STATE to such a state.
//
// The script that grants to flows is take's, without 'hot' and with two other
// parts at its end: flows, which shares the look-ahead out, and share, which
// grants each flow up to its share. internal/model has the rule in Go.
//
// # Stored quotas
//
// A second key, <prefix>{name}:quota, holds quotas as a person would write them,
// or nothing if they were forgotten:
//
//	20/1s 100/2m burst 10
//
// It has no TTL. Limiters that look for it send the text that they know with
// each question that depends on it. If another is stored, the script does
// nothing and brings it.
//
// # One question
//
// The scripts are lua/fair/*.lua, one an operation, each put together of parts
// by scripts.go. This is what take does, part by part:
//
//	head     names its arguments
//	quota    compares the stored quotas, if the limiter looks for them
//	open     reads the state, its TTL and the time, once each
//	hot      decides and writes the usual request, and is done
//	notes    reads what the state tells of the queue as a whole
//	clock    sets the queue's clock, tells the news
//	log      reads the state into tables
//	windows  selects the caller's windows, keeps those of others
//	grid, histogram, cells, behind, compact
//	         keep a log small
//	add      adds permits to a log
//	recover  finds out what was lost
//	begin    calls clock, windows and recover
//	narrow   slows the clock where stored quotas have become narrower
//	write    writes the state
//	grant    finds the earliest slot of each request
//	take     replies
package fair
