// Package fair is the engine that grants turns in order. It keeps a reservation
// queue in one Redis key. The TTL of the key is about the backlog plus one Per.
//
// # The rule
//
// Granted slots s₁ ≤ s₂ ≤ … stay. A request for n permits at time t gets the
// smallest slot x ≥ max(t, last slot) that fits every window. It fits a window
// of length T and size N if the permits with slots in (x−T, x], plus n, are at
// most N. The request is refused if x − t is longer than it may wait. This is
// the rule of a sliding window log, applied to the future.
//
// # Words
//
//   - A reservation is permits that were granted at a slot. The slot is the
//     time from which their caller may use them. Status counts those that lie
//     ahead as Queued.
//   - A window is at most so many permits in any stretch of time of so long. A
//     quota is a window. Its Burst is another one: Burst permits in Burst × Per
//     ÷ Permits.
//   - The queue's clock is the server's clock plus an offset. The offset grows
//     when the server's clock goes back. It shrinks while the queue is paused,
//     so that the queue's clock stands still. Slots are times on this clock: a
//     caller keeps its slot, and news of the queue tells when the clock gets
//     there.
//   - A generation is the life of one state. It has a name of its own. The
//     sequence counts the permits granted in it.
//   - A position is a generation, an epoch, a sequence and a clock: where a
//     limiter last saw its queue. It is sent along with every question.
//   - The window log holds the permits that may still count, in cells. A cell
//     is the slot of its last permit, and the sequence up to that permit. All
//     permits of a cell count at its slot, which is the safe side.
//   - The base is the sequence up to which permits have left the window. The
//     origin is the slot of the last of these.
//   - A row is a cell of single permits that stand one length apart.
//   - A window is crowded after more than 130 distinct slots within its length.
//     Its cells then lie on a grid, at least 64 to a length. Each cell takes
//     the permits up to its bound.
//   - Compacting merges cells on the grid. Cells that are older than the window
//     go into a histogram.
//   - Recovering makes up for what a server has lost.
//   - Releasing gives permits back.
//   - A flow is the limiters that share the queue under one weight. An entry is
//     one limiter of a flow. It is active until some time after its newest
//     slot. The active flows divide the look-ahead: a flow's share is what it
//     may hold ahead.
//   - An epoch is the time in which one primary writes the state. The next one
//     begins when another server goes on with it, after a failover or a restart.
//     What the first one granted after the state that the second one has does
//     not belong to this history.
//
// # The state
//
// The state is written with PSETEX only. A person can read it with GET, and a
// script finds everything at fixed places. This is a quota of 3 permits a
// second after five requests at one moment. The key has 2.001 s to live:
//
//	fair4 3/1000000 -                6                0                0 74 .:0123456   3
//	77a6222 k3x9q2ab 39a85018                5 1700000000123456 1700000001123456
//
// The first line is one window:
//
//	fair4              the version: of another one a script says STATE
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
// A line that begins with 'behind' may follow: the histogram. The last line is
// the server, the position, and the newest slot:
//
//	77a6222            server: where the interpreter lies that wrote this
//	k3x9q2ab           generation
//	39a85018           epoch: the replication id of the server
//	5                  sequence
//	1700000000123456   clock
//	1700000001123456   newest slot
//
// A state that is not plain has a '+' in place of the '-'. This is 20 permits a
// second with a Burst of 1, and 100 in 2 minutes, after six requests:
//
//	fair4 20/1000000/9600,1/50000/153600,100/120000000/120/2400 + 3 0 0 0 0 0
//	1000000 0 1700000000423456                0                0                0 74 .:0323456   5
//	50000 0 1700000000423456                0                5 1700000000323456 64 .:
//	120000000 0 1700000000423456                0                0                0 94 .:000323456   5
//	77a6222 3i7wfy7i 39a85018                6 1700000000423456 1700000000423456
//
// The word of a window goes on with its grid: its cells, and its laps if they
// differ, in the longest length. Six numbers follow the '+': how many windows
// there are; the offset; the end of the key if turns were given back; the slot
// up to which the queue counts as full after a loss; the end up to which a
// missing state was reset and not lost; and 1 if callers with other windows
// came. Each window has a line: its length, idle since, newest slot, and then
// as above.
//
// While the queue's clock does not run like the server's, there are three more
// numbers: how much longer it stands still, up to which slot it runs slower,
// and how long a million of its microseconds take until then. This is the first
// state again, paused for 30 s:
//
//	fair4 3/1000000 + 1 -29999999 0 0 0 0 30000000 0 0
//	1000000 0 1700000001123456                6                0                0 74 .:0123456   3
//	77a6222 v0c9s41m 39a85018                5 1700000000123457 1700000001123456
//
// After the pause the offset stays below 0 until nothing counts any more.
//
// # Epochs
//
// Another server goes on with a state after a failover. Then there is a line
// for the epochs that have ended, the last seven or so. Each has its name, the
// sequence at which it ended, and the sequence up to which what it granted
// counts: that is more if a limiter that was told of more has asked since. A
// slot may follow, at which all of that stands. This is the first state without
// its last request, which was lost, and with two requests of others:
//
//	epochs 39a85018 4 4
//	5b11f04 k3x9q2ab c4d20f6e                6 1700000000523456 1700000001123456
//
// A return says in which epoch it was granted, and with which sequence. It is
// taken if the epoch is the present one or ended at that sequence or later.
//
// # Flows
//
// While flows use the queue, there is a line for them before 'epochs'. It
// begins with the time up to which the last flow is active. The entries follow:
// 5 letters of the flow and 3 of the limiter, the weight, the most permits of
// one request, and up to when it is active. This is the first state once more,
// with three permits of one flow and two of another that has twice the weight:
//
//	flows 1700000001630000 v4rrg00a/1/1/1700000000630000 lmxt100b/2/1/1700000001630000
//
// There are at most 64 entries, in at most 2,048 bytes. A further limiter
// shares the entry of another one, which its letters choose. An entry whose
// numbers become too long for the rest stays as it is. Limiters without a flow
// leave the line as it is. The key stays at least until the last entry is over.
//
// The script that grants to flows is that of take, without 'hot' and with two
// other parts at its end: flows, which divides the look-ahead, and share, which
// grants each flow up to its share. internal/model has the rule in Go.
//
// # Stored quotas
//
// A second key, <prefix>{name}:quota, holds quotas as a person would write
// them. It is empty if they were forgotten:
//
//	20/1s 100/2m burst 10
//
// It has no TTL. Limiters made WithStoredQuota send the text that they know
// with each question that depends on it. If another text is stored, the script
// does nothing and returns that text.
//
// # One question
//
// The scripts are in lua/fair/*.lua, one for each operation. scripts.go joins
// them from parts. This is what take does, part by part:
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
//	epochs   tells apart what different servers have granted
//	recover  finds out what was lost
//	begin    calls clock, windows and recover
//	narrow   slows the clock where stored quotas have become narrower
//	write    writes the state
//	grant    finds the earliest slot of each request
//	take     replies
package fair
