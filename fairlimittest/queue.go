package fairlimittest

import (
	"sync"
	"testing"

	"github.com/fairlimit/fairlimit"
)

// New returns a limiter like any other, except that it has a Redis of its own
// in memory, and no guard unless an option gives one: so times in tests are
// exact. Its name is that of the test, and it ends with the test. If
// [fairlimit.NewQueue] returns an error, the test fails.
//
// It works inside a [testing/synctest] bubble as well as outside.
func New(t testing.TB, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	s := Start(t)
	q := s.Queue(t, t.Name(), quota, opts...)
	servers.Store(q, s)
	t.Cleanup(func() { servers.Delete(q) })
	return q
}

// servers are those of the limiters that New made, until their tests end.
var servers sync.Map

// ServerOf returns the server of a limiter that [New] made, nil for another.
func ServerOf(q *fairlimit.Queue) *Server {
	s, _ := servers.Load(q)
	server, _ := s.(*Server)
	return server
}
