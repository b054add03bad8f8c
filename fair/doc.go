// Package fair is the engine that grants turns in order. It keeps a reservation
// queue in one Redis key. The TTL of the key is the backlog plus one Per, or
// what it was before if that is longer.
//
// # The rule
//
// Granted slots s₁ ≤ s₂ ≤ … stay. A request for n permits at time t gets the
// smallest slot x ≥ max(t, last slot) that fits every window. It fits a window
// of N permits in T if the permits with slots in (x−T, x], plus n, are at most
// N. The request is refused if x − t is longer than it may wait. This is the
// rule of a sliding window log, applied to the future.
//
// # Words
//
//   - A reservation is permits that were granted at a slot. The slot is the
//     time from which their caller may use them.
//   - A window is at most N permits in any stretch of length T. A quota is a
//     window. Its Burst is another one: Burst permits in Burst × Per ÷ Permits.
//   - The queue's clock is the server's clock plus an offset. The offset grows
//     if the server's clock goes back, and shrinks by each pause. Slots are
//     times on this clock, in microseconds.
//   - A generation is the life of one state. The sequence counts the permits
//     granted in it. The permit of number p is the p-th of them.
//   - A cell is a slot and the sequence up to it. The log is the cells, from the
//     oldest to the newest. The tail is the newest slot: its cell is still open
//     and lies in the header.
//   - The room of a window is the sequence up to which the tail takes permits.
//     Its cursor is the first cell that may still hold it back.
//   - An epoch is the time in which one primary writes the state. A watermark is
//     a generation, an epoch, a sequence and a clock: where a limiter last saw
//     its queue. It sends the watermark along with every question.
//   - A flow is the limiters that share the queue under one weight. An entry is
//     one limiter of a flow. A share is what it may hold ahead.
//
// # One log
//
// All windows of a queue see the same slots, so one log serves them all. Let S be
// the sequence. A window lets permits up to number S+n go once permit S+n−N has
// left it. So a request goes at the latest of the clock, the tail and, for each
// window, r(S+n−N) + T.
//
// Here r(p) is the reading of permit p. Take the first cell (c, t) with t ≥ p.
// Permit p stands t−p permits before the end of this cell. Go back from c by as
// many whole lengths of the longest window as fit into t−p, then of the next
// shorter one, and so on. So one cell can stand for a row of thousands of turns
// that follow each other as closely as the windows allow.
//
// Why this is Strict. In every window slot(p) ≤ slot(p+N) − T. By induction
// slot(p) ≤ r(p). So the request goes at r(S+n−N) + T or later, which is at
// slot(S+n−N) + T or later: the window holds. A return only leaves some of the
// permits out. Merging two cells drops the older one, which makes r later. Both
// are on the safe side.
//
// The induction needs that all permits of the log obeyed these windows. Where
// callers with other windows have asked, or lost permits were counted again,
// they need not. Up to the slot 'coarse' each cell then counts whole.
//
// The ring has 206 cells. Before it is full, cells merge that share a place on
// a grid: see the head of compact.lua. A shortest length has 64 places or more.
// If every T is a whole number of places, a turn is late by less than one
// place, once: see internal/grid. Bigger places follow where that does not
// suffice.
//
// # The state
//
// A person sees it with 'fairlimit look', a program with [Inspect]. It is one
// string: three lines, a line for each window, the ring. This is a quota of 3
// permits a second after five requests at one moment:
//
//	fair5 3/1000000/64 --------
//	- 77a6222 k3x9q2ab 39a85018                5 1700000000123456 1700000001123456
//	               0 1700000002139081                0                0                0    1    0                0
//	               6    0
//	;56w?N')!!!!!$.
//
// Let p be the length of the first line with its line feed. Bytes count from 1,
// as in Lua:
//
//	1       fair5       the version: of another one a script says STATE
//	        3/1000000/64  for each window N/T/places, from the longest to the
//	                    shortest; places is how many of them are in the longest T
//	p-8     --------    letters of the stored quotas; these if the caller uses none,
//	                    dots if a caller without quotas began the queue
//	p+1     mark        '-', 'n' with notes, '+' if the clock does not run as the
//	                    server's: it stands still or is slow
//	p+2     flag        'f' if there are flows' entries, 'F' if those of several flows,
//	                    'M' if more limiters of flows ask than there is room for
//	p+3     77a6222     place: where the interpreter lies that wrote this
//	p+11    k3x9q2ab    generation
//	p+20    39a85018    epoch: 5 letters of the server's replication id, 3 new ones
//	p+29    5           sequence
//	p+46    17…123456   clock, when this was written
//	p+63    17…1123456  newest slot, the tail. The sequence up to it is the one above
//	p+80    0           offset
//	p+97    17…2139081  ends: when the key expires, on the queue's clock
//	p+114   0           crowded: up to this slot the newest cell stretches in its place
//	p+131   0           coarse: up to this slot each cell counts whole
//	p+148   0           span: the longest window of other callers
//	p+165   1           closed: how many cells were closed. Cell i is at i mod 206
//	p+170   0           oldest: the first cell that counts
//	p+175   0           base: the sequence before the oldest cell
//	p+192   6    0      room and cursor, 22 bytes for each window
//	p+192+22w  ;56w…$.  behind w windows the ring: 206 cells of 15 bytes
//
// A cell is 8 bytes of slot and 6 bytes of sequence, in base 94 from '!' on, and
// '.', or '~' if cells were merged into it. The sequence counts modulo 94⁶. The
// sample's cell says: 3 permits up to slot 1700000000123456.
//
// Behind the ring is a line of notes, if the mark says so, in 1024 bytes that are
// kept for it. This is the same queue, paused for 30 s. A line that is too long is
// broken at a backslash.
//
//	fair5 3/1000000/64 --------
//	+ 77a6222 k3x9q2ab 39a85018                5 1700000000123457 1700000001123456
//	       -29999999 1700000002139081                0                0                0    1    0                0
//	1699999970123457                0                0                0 - -
//
// The notes are: the moment of the clock, which is the server's time and the
// offset; until when a reset is remembered; the slot up to which the queue counts
// as full after a loss; up to which sequence turns stand in a stretch; the
// stretches of the clock, '-' if it is nowhere slow; the windows of callers with
// different ones, '-' if there are none; then the epochs that have ended, as
// ' <name> <sequence at its end> <sequence up to which it counts>'.
//
// A stretch is '<slot>:<pace>:<windows>': up to which slot it goes, how long a
// million of its microseconds take, and the windows that its turns were granted
// on, of calls and of units. '|' is between stretches. Narrow.lua says how they
// come about.
//
// Behind the notes are flows' entries of 81 bytes: 5 letters of the flow and 3
// of the limiter, weight, the most permits of a request, how many its callers
// want, when it is over, its share, and when the first of all is over. There are
// 64 at most:
//
//	v4rrg00a    1          1          3 1700000000630000          1 1700000000630000
//	lmxt100b    2          1          2 1700000001960000          2 1700000000630000
//
// A flow with a ceiling or a pause has a log of its own, the sorted set
// <prefix>{name}:flow:<id>. Its members are slots, and the score of each is how
// many permits the flow was granted up to it. A ceiling reads it as the queue's
// windows read theirs. Notes have negative scores: whose slots these are, until
// when the flow is paused, and the quota that is stored in place of a ceiling:
//
//	quota 2/1050000 2/1s                        -3
//	pause 1700000030123456 k3x9q2ab             -2
//	generation k3x9q2ab                         -1
//	1700000000123456                            2
//	1700000001123456                            4
//
// It has some 130 slots at most, and ends an hour after
// they count, unless a quota is stored. A limiter remembers up to how many permits
// each ceiling counted. If the log has fewer, or is of a queue that was lost, the
// ceiling counts as full at the newest slot of the queue. So the key of the queue
// lives until ten seconds after the last slot counts for a ceiling.
//
// # One question
//
// The scripts are parts in lua/fair, which scripts.go joins. The head of each
// part says what it takes and leaves. Take is
//
//	head     names its arguments
//	quota    compares the stored quotas, if the limiter uses them
//	fields   reads the time and the TTL, names the fields
//	open     reads the header, decides which way to go
//	{ … }    the rare ways: only if open finds something unusual
//	rest     reads the rest of the header
//	grant    finds the earliest slot of each request, closes cells
//	compact  makes room in the ring
//	write    writes what has changed
//	take     replies
//
// On the usual way no function is defined and no table is made. A cell is written
// before the header that counts it. A refusal writes nothing.
//
// Share is take for flows: flows reads the entries of those who ask, ceiling
// their logs, active notes how long they stay. All entries are read only if one
// comes, changes or is over.
//
// # The rare ways
//
// What is between braces runs if the mark is not '-', if another server or a
// caller with other windows or stored quotas wrote the state, if the clock went
// back, if there is no key, or if a watermark is not of this history:
//
//	header   reads and checks the whole header, reads the notes
//	clock    sets the clock; says when it reaches a slot
//	epochs   begins an epoch, if another server has taken over
//	narrow   slows the clock if the stored quotas became narrower
//	cells    reads the ring, where it is needed
//	lost     counts permits again
//	resets   takes in a reset that the state does not know of
//	recover  finds what the watermark knows and the state lacks
//	others   lets a log go by other windows
//	windows  makes the queue one of the caller's windows
//
// A pause takes from the offset, and no cell changes. If the state lacks permits
// that a watermark knows, these count at the newest slot that the limiter was
// told: see the heads of recover.lua and epochs.lua. Release takes permits out of
// the cell that holds them, and writes the ring anew. Other windows read the same
// log: see the heads of others.lua and windows.lua.
//
// Stored quotas are text in a second key, <prefix>{name}:quota, such as '20/1s
// 100/2m burst 10'. It is empty if they were forgotten. Limiters that use them
// send the text that they know. If another one is stored, the script does
// nothing and returns that.
//
// # Several units
//
// A turn can count further units, such as tokens. Each unit has windows, and a log
// of its own of the same cells. These logs lie in one further key,
// <prefix>{name}:units. Who counts calls only touches it in the rare ways alone: it
// lives for as long as the queue, and a return leaves the units' tail. Units sets
// the fields of one log after the other, and the parts in brackets run for each:
// grant and compact, or release. So one code serves all of them. The heads of the
// parts say what each does.
//
// The newest slot of the log of calls is the tail of all: if a unit books at a
// later slot, a cell without permits is opened there. So a limiter that counts
// calls only keeps the order as well, and the key lives for long enough. A debt
// is single permits that are granted like those of callers that accept any
// wait, and nobody waits for them. A refund cancels debts that lie ahead; the
// rest of it is a return.
//
// This is the key of a queue of 3 calls a second and 100 tokens a minute, after two
// turns of 60 tokens:
//
//	units1 tokens:100/60000000/64
//	k3x9q2ab 39a85018 --------
//	             120 1700000060123456                0                0                0                0 \
//	               0    1    0    0
//	             160    0
//	;56w?N')!!!!!].
//
// The first line has the units and their windows, the second the generation, the
// epoch, and the epoch before it. Of each unit there are a line with sequence,
// newest slot, crowded, coarse, span, base, the sequence when the epoch began,
// closed, oldest, and how many debts are noted, and then room and cursor of each
// window. Behind the headers each unit has 4210 bytes: its ring, and 40 debts of 28
// bytes, slot and amount. A key of another generation is of a queue that is over.
//
// # What a state cannot tell
//
//   - A server asks for its replication id only if another interpreter wrote the
//     state, or if the state is older than 100 ms. So a primary that was a
//     replica for a shorter time goes unnoticed, and so does an old copy of the
//     key on the same server. Then a return can free the turn of somebody else.
//     Without leave to call INFO, the interpreter alone tells servers apart.
//   - Notes have room for some three epochs that have ended. What an older epoch
//     granted cannot be given back. If it was lost, it does not count again
//     where others were granted as many since, unless a limiter that asks was
//     told of it in a later epoch.
//   - After two failovers in a row, what the first one lost may count twice.
//   - Units know the end of the last epoch only. Who saw them in an older one, of
//     which something was lost, counts a whole window again.
//   - While a reset is remembered, an hour or more, a server may go back to the
//     state that the reset left. Then a watermark from after the reset counts
//     only if its limiter had heard of the reset.
//
// # A window of a new kind
//
// A window asks the log one thing: from when on may permits up to S+n go, if
// permit S+n−N stands at slot c? A new kind is a function free(c). The windows
// above have free(c) = c + T. If free never falls when c grows, merging is on
// the safe side, and one room and one cursor suffice. What merges makes c later.
// Where free jumps, as at a midnight, that can cost as much as the jump: then
// compact.lua and the crowded cells of grant.lua must not merge across it. If
// free depends on the clock's offset, a change of it makes the rooms stale:
// whoever sets offset (clock.lua, recover.lua) has to forget them.
//
// Example: at most N permits in a calendar day of UTC. Then free(c) is the
// midnight after c. Such a window cannot tell how far back a permit stands, so
// it takes no part in readings. Yet any 24 hours hold at most 2N. So:
//
//  1. windows.go: windowsOf binds the plain windows first: see binding. Then it
//     adds {2N, 24 h}, unless they imply that, and the day between the first and
//     the last window, which period, short and least go by. The guard lengthens
//     no day. A word of its own in the header tells the kind.
//  2. grant.lua: where it says cell + length, three times, such a window has
//     (floor((cell - offset) / length) + 1) * length + offset. Numbers of argv
//     are text on the usual way: compare them with + 0.
//  3. All readings of how far back permits stand leave such windows out, in Lua
//     and in state.go, and so does AtBest. At its end status.lua counts from the
//     last midnight on, less a microsecond, instead of now - length.
//  4. A pause moves turns into another day, and so does a slow clock: a real day
//     may hold 2N then. Say so in LIMITS, or count by the moment of a label.
//  5. internal/model gets the kind. Play histories of it against the scripts, on
//     both servers, with many turns around a midnight.
package fair
