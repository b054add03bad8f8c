package enginetest

import (
	"context"
	"errors"
	"math"

	"github.com/fairlimit/fairlimit/engine"
)

// What is between an engine and its server.
var servers = []testCase{
	{
		name:        "goes on when the server forgets its scripts",
		explanation: "SCRIPT FLUSH, or a restart, empties the server's script cache. No caller may notice.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			for range 2 {
				s.granted(e, now(1))
				s.ok(s.rdb.ScriptFlush(s.ctx).Err(), "SCRIPT FLUSH")
			}
			s.status(e)
			s.ok(s.rdb.ScriptFlush(s.ctx).Err(), "SCRIPT FLUSH")
			s.refused(e, now(1))
		},
	},
	{
		name:        "consumes nothing for a ctx that has ended",
		explanation: "With a ctx that has ended, every method returns an error and nothing has happened.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			_, err := e.Take(ended, []engine.Request{now(1)})
			s.want(err != nil, "Take should return an error")
			s.idle(e, 2)
			s.granted(e, now(2))
			_, err = e.Status(ended)
			s.want(err != nil, "Status should return an error")
			s.want(e.Reset(ended) != nil, "Reset should return an error")
			s.refused(e, now(1))
		},
	},
	{
		name: "asks once where an answer is lost",
		explanation: "When the connection breaks after a request was sent, the error matches " +
			"ErrOutcomeUnknown, and the permits are consumed once or not at all: it must not be sent " +
			"again, whatever the client's MaxRetries are.",
		text: func(s *subject) {
			line := tap(s.rdb)
			e := s.engine(engine.Quota{Permits: 10, Per: long})
			s.granted(e, now(1)) // the script is loaded and the connection made
			line.loseReply()
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(line.lost(), "no reply was lost: the engine does not ask with the client that it was given")
			s.want(errors.Is(err, engine.ErrOutcomeUnknown), "Take should return ErrOutcomeUnknown: %+v, %v",
				answers, err)
			left := s.status(e).Available
			s.want(left == 8 || left == 9, "8 or 9 should be available, not %d", left)
		},
	},
	{
		name: "does no I/O until it is asked",
		explanation: "A Builder does not talk to the server. Without a server, every method returns an error; " +
			"none of them grants.",
		text: func(s *subject) {
			rdb, dials := unreachable()
			defer func() { _ = rdb.Close() }()
			e, err := s.build(engine.Config{Client: rdb, Name: s.name, Quota: engine.Quota{Permits: 1, Per: long}})
			s.ok(err, "build without a server")
			s.want(dials.Load() == 0, "building dialed")
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(err != nil, "Take without a server: %+v", answers)
			_, err = e.Status(s.ctx)
			s.want(err != nil, "Status without a server should return an error")
			s.want(e.GiveBack(s.ctx, []engine.Grant{{ID: "x", At: math.MaxInt32, N: 1}}) != nil,
				"GiveBack without a server should return an error")
			s.want(e.Reset(s.ctx) != nil, "Reset without a server should return an error")
		},
	},
}
