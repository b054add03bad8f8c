package redistest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Faults stands between a client and its servers, and passes everything on until
// it is told to break something. It starts no goroutines, so that it works in a
// bubble as well. Any goroutine may call its methods.
//
//	faults := redistest.Break(rdb)
//	faults.Lose(redistest.Unanswered)
type Faults struct {
	Hook // of commands

	mu      sync.Mutex
	conns   map[*faultyConn]bool
	hole    bool
	next    Loss // of the next script
	scripts int
}

// Loss is what becomes of a script whose answer is lost.
type Loss int

const (
	// Unsent: the connection ends before the server has the script.
	Unsent Loss = iota + 1

	// Unanswered: the server runs it, and the answer disappears.
	Unanswered

	// Cut: the server runs it, and the connection ends in place of the answer.
	Cut
)

// Break puts faults on the connections that the client opens from now on: all of
// them, if it is new.
func Break(rdb redis.UniversalClient) *Faults {
	f := &Faults{Hook: passOn, conns: map[*faultyConn]bool{}}
	if cluster, is := rdb.(*redis.ClusterClient); is {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(f) })
	} else {
		rdb.AddHook(f)
	}
	return f
}

// Lose loses the answer to the next script.
func (f *Faults) Lose(how Loss) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = how
}

// Scripts is how many scripts were sent.
func (f *Faults) Scripts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scripts
}

// BlackHole lets what is sent disappear, and nothing arrive. Connections that were
// used end with [Faults.Heal]. New ones are taken.
func (f *Faults) BlackHole() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hole = true
}

// Heal ends [Faults.BlackHole].
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hole = false
	for conn := range f.conns {
		if conn.over {
			_ = conn.Conn.Close()
		}
	}
}

// fate is what becomes of a command, under mu.
func (f *Faults) fate(command []byte) (how Loss) {
	if bytes.Contains(command, []byte("\r\neval")) {
		f.scripts++
		how, f.next = f.next, 0
	}
	return how
}

func passOn(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	return next(ctx, cmd)
}

// DialHook puts the faults on a connection.
func (f *Faults) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		faulty := &faultyConn{Conn: conn, faults: f}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns[faulty] = true
		return faulty, nil
	}
}

// faultyConn is a connection of a client that sends one command at a time. What it
// holds is guarded by the faults' mu.
type faultyConn struct {
	net.Conn
	faults *Faults
	loss   Loss // of the answer that comes next
	over   bool // nothing is sent or received any more
}

// Write sends a command, unless it is to disappear.
func (c *faultyConn) Write(p []byte) (int, error) {
	c.faults.mu.Lock()
	c.loss = c.faults.fate(p)
	c.over = c.over || c.faults.hole || c.loss == Unsent
	over := c.over
	c.faults.mu.Unlock()
	if over {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Read receives an answer, or a part of it.
func (c *faultyConn) Read(p []byte) (int, error) {
	for c.open() {
		n, err := c.Conn.Read(p)
		if err != nil || c.arrives() {
			return n, err
		}
	}
	return 0, io.EOF
}

// open reports whether the connection is to be waited at.
func (c *faultyConn) open() bool {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	return !c.over || c.faults.hole
}

// arrives reports whether an answer is not lost.
func (c *faultyConn) arrives() bool {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.over = c.over || c.loss == Cut
	return c.loss == 0 && !c.faults.hole
}

// Close ends the connection.
func (c *faultyConn) Close() error {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	delete(c.faults.conns, c)
	return c.Conn.Close()
}
