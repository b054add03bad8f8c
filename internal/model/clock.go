package model

import "math"

// Clock is the queue's: the server's and an offset. While it stands still it is
// ahead of these by rest. Up to slowUntil a million of its microseconds take
// slowPace. Its zero value runs as the server's does.
type Clock struct {
	now                 int64 // the label that was reached when the queue was called last: it never runs backward
	offset, rest        int64
	late                int64 // for how long it has shown this label, while it runs slower
	slowUntil, slowPace int64
}

// moment is where server and offset are when the clock reaches a label.
func (c *Clock) moment(label int64) int64 {
	if label >= c.slowUntil {
		return label
	}
	return c.slowUntil - int64(math.Floor(float64(c.slowUntil-label)*float64(c.slowPace)/1e6))
}

// label is the last one that is reached at a moment.
func (c *Clock) label(moment int64) int64 {
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

// Set lets the clock go on to where the server's is. What a pause does not
// explain, that has gone back.
func (c *Clock) Set(server int64) {
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

// Pause lets the clock stand still for d, or for as long as it does anyway, at a
// label that it has not shown before.
func (c *Clock) Pause(server, d int64) {
	if d <= c.rest {
		return
	}
	if c.rest == 0 {
		c.now++
	}
	c.stand(server, d)
}

func (c *Clock) stand(server, d int64) {
	c.rest, c.late, c.offset = d, 0, c.moment(c.now)-d-server
}

// Slow lets the clock run slower up to a label. It never runs faster before a
// label up to which it was slowed.
func (c *Clock) Slow(server, until, pace int64) {
	c.slowUntil, c.slowPace = until, pace
	c.stand(server, c.rest)
}

// Wait is how long it takes until the clock has reached a slot.
func (c *Clock) Wait(slot int64) int64 {
	if slot <= c.now {
		return c.rest
	}
	return c.rest - c.late + c.moment(slot) - c.moment(c.now)
}

// Ahead reports whether nobody can have gone at the slot yet.
func (c *Clock) Ahead(slot int64) bool { return slot > c.now || c.rest > 0 && slot == c.now }

// Offset is how far the clock is behind the server's because of pauses, as a
// negative number, or ahead of it because that went back.
func (c *Clock) Offset() int64 { return c.offset }

// Now is the label that the clock had reached when it was set last.
func (c *Clock) Now() int64 { return c.now }
