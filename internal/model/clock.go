package model

import (
	"fmt"
	"math"
)

// clock is the queue's, kept as the script does: the server's and an offset.
// While it stands still it is ahead of these by rest. Up to slowUntil a million
// of its microseconds take slowPace.
type clock struct {
	now                 int64 // the label that was reached when the queue was called last: it never runs backward
	offset, rest        int64
	late                int64 // for how long it has shown this label, while it runs slower
	slowUntil, slowPace int64
}

// moment is where server and offset are when the clock reaches a label.
func (c *clock) moment(label int64) int64 {
	if label >= c.slowUntil {
		return label
	}
	return c.slowUntil - int64(math.Floor(float64(c.slowUntil-label)*float64(c.slowPace)/1e6))
}

// label is the last one that is reached at a moment.
func (c *clock) label(moment int64) int64 {
	if moment >= c.slowUntil {
		return moment
	}
	label := c.slowUntil - int64(math.Ceil(float64(c.slowUntil-moment)*1e6/float64(c.slowPace)))
	for c.moment(label) > moment {
		label--
	}
	for c.moment(label+1) <= moment {
		label++
	}
	return label
}

// set lets the clock go on to where the server's is. What a pause does not
// explain, that has gone back.
func (c *clock) set(server int64) {
	due := c.moment(c.now)
	c.offset += max(0, due-server-c.offset-c.rest)
	moment := server + c.offset
	c.rest = max(0, due-moment)
	c.late = 0
	if c.rest == 0 {
		c.now = c.label(moment)
		c.late = moment - c.moment(c.now)
	}
	if c.now >= c.slowUntil {
		c.slowUntil, c.slowPace = 0, 0
	}
}

// pause lets the clock stand still for d, at a label that it has not shown
// before.
func (c *clock) pause(server, d int64) {
	if d <= c.rest {
		return
	}
	if c.rest == 0 {
		c.now++
	}
	c.stand(server, d)
}

func (c *clock) stand(server, d int64) {
	c.rest, c.late, c.offset = d, 0, c.moment(c.now)-d-server
}

// Slow lets the clock run slower up to a label.
func (q *Queue) Slow(server, until, pace int64) {
	q.advance(server)
	q.slowUntil, q.slowPace = until, pace
	q.stand(server, q.rest)
}

// Timeline is what the state keeps of the clock: '<rest> <until> <pace>'.
func (q *Queue) Timeline() string { return fmt.Sprint(q.rest, q.slowUntil, q.slowPace) }

// Wait is how long it takes until the clock has reached a slot.
func (c *clock) Wait(slot int64) int64 {
	if slot <= c.now {
		return c.rest
	}
	return c.rest - c.late + c.moment(slot) - c.moment(c.now)
}

// Ahead reports whether nobody can have gone at the slot yet.
func (c *clock) Ahead(slot int64) bool { return slot > c.now || c.rest > 0 && slot == c.now }

// Pause lets the queue's clock stand still for d, or for as long as it does
// anyway.
func (q *Queue) Pause(server, d int64) {
	q.advance(server)
	q.pause(server, d)
	q.write()
}

// Offset is how far the clock is behind the server's because of pauses, as a
// negative number, or ahead of it because that went back.
func (q *Queue) Offset() int64 { return q.offset }

// Now is the label that the clock has reached at a moment.
func (q *Queue) Now(server int64) int64 {
	q.advance(server)
	return q.now
}
