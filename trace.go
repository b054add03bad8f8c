package fairlimit

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Trace holds functions that a limiter calls as things happen, in the manner of
// net/http/httptrace. Each may be nil. Several goroutines may call them at once.
// They must return soon, because callers wait for them, and they must not call
// the limiter. [WithTrace] reads the functions once.
//
// [LogTrace] writes to a log. The modules promlimit and otellimit each have a
// Trace that makes metrics.
type Trace struct {
	// Entered: a caller of Wait, WaitN or [Reservation.Wait] begins to wait. Left
	// follows.
	Entered func(permits int)

	// Left: a caller that entered has stopped waiting. Waited is how long it
	// waited. Err is nil if it goes, even if a fallback let it go.
	Left func(permits int, waited time.Duration, err error)

	// Granted: a caller was granted a turn. Wait is how long it is until then.
	Granted func(permits int, wait time.Duration)

	// Reserved: a turn was granted as a reservation. Slot is its slot.
	Reserved func(permits int, slot time.Time)

	// Unreserved: a reservation was cancelled, or its Wait begins. In the second
	// case Entered follows. For a reservation whose caller sleeps on its own,
	// Unreserved is not called.
	Unreserved func(permits int, slot time.Time)

	// Refused: a caller gets an error instead of a turn.
	Refused func(permits int, err error)

	// Taken: a caller goes. Lateness is how long after its slot. Confirmed is
	// false if Redis did not say within the last second that the turn stands.
	Taken func(permits int, lateness time.Duration, confirmed bool)

	// Missed: a caller did not take its turn, because it woke too late: see
	// [WithGuard].
	Missed func(permits int, lateness time.Duration)

	// GivenBack: permits that their callers will not use were given back. If err
	// is not nil, that failed.
	GivenBack func(permits int, err error)

	// Settled: a turn was settled. It had reserved so much of a unit, and used so
	// much. See [Turn.Settle].
	Settled func(unit string, reserved, used int)

	// Asked: a question to Redis was answered, or failed. Op is "take",
	// "release", "status", "reset", "look", "pause", "resume", "requeue", "quotas"
	// or "set quotas".
	// Callers is how many callers a take or a release was for, and 1 otherwise.
	Asked func(op string, callers int, took time.Duration, err error)

	// Paused: this limiter sends a pause of d to Redis.
	Paused func(d time.Duration)

	// Lost: Redis had lost turns that this limiter knew of. They count again. It
	// is not told if what restored them was a return of permits.
	Lost func()

	// FellBack: the fallback took over because of this error. If it is nil,
	// Redis decides again. See [Fallback].
	FellBack func(because error)
}

// WithTrace makes the limiter call the functions of t. A nil t changes nothing.
// WithTrace may be given several times, such as for a log and for metrics: each
// trace is called, in the order given.
func WithTrace(t *Trace) Option {
	return func(o *options) { o.trace = o.trace.and(t) }
}

// waits tells t of a caller, from when it enters to when it leaves.
func (t *Trace) waits(permits int, wait func() error) error {
	if t.Entered != nil {
		t.Entered(permits)
	}
	var began time.Time
	if t.Left != nil { // a look at the clock is not free
		began = time.Now()
	}
	err := wait()
	t.refused(permits, err)
	if t.Left != nil {
		t.Left(permits, time.Since(began), err)
	}
	return err
}

func (t *Trace) refused(permits int, err error) {
	if err != nil {
		tell(t.Refused, permits, err)
	}
}

// tell calls a function of a trace, unless it is nil.
func tell[A any](f func(permits int, a A), permits int, a A) {
	if f != nil {
		f(permits, a)
	}
}

// asks tells t of a question for so many callers, once it is answered or has failed.
func (t *Trace) asks(op string, callers int, ask func() error) error {
	began := time.Now()
	err := ask()
	if t.Asked != nil {
		t.Asked(op, callers, time.Since(began), err)
	}
	return err
}

// traced is an engine that tells a trace of callers and returns.
type traced struct {
	engine.Engine
	trace *Trace
}

func (e traced) Take(
	ctx context.Context, requests []engine.Request,
) (answers []engine.Answer, news engine.News, err error) {
	err = e.trace.asks("take", len(requests), func() error {
		answers, news, err = e.Engine.Take(ctx, requests)
		return err
	})
	return answers, news, err
}

func (e traced) GiveBack(ctx context.Context, returns []engine.Return) error {
	err := e.trace.asks("release", len(returns), func() error { return e.Engine.GiveBack(ctx, returns) })
	permits := 0
	for _, r := range returns {
		if r.IsAll() {
			permits += r.N
		}
	}
	if permits > 0 {
		tell(e.trace.GivenBack, permits, err)
	}
	return err
}

// and returns a trace that calls the functions of t and then those of u, which
// may be nil, as net/http/httptrace does.
func (t *Trace) and(u *Trace) *Trace {
	if u == nil {
		return t
	}
	both := *t
	all, first, second := reflect.ValueOf(&both).Elem(), reflect.ValueOf(*t), reflect.ValueOf(*u)
	for i := range all.NumField() {
		f, g := first.Field(i), second.Field(i)
		if f.IsNil() {
			all.Field(i).Set(g)
		} else if !g.IsNil() {
			all.Field(i).Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
				f.Call(args)
				return g.Call(args)
			}))
		}
	}
	return &both
}

// LogTrace returns a [Trace] that writes to a log. Three things are warnings:
// Redis had lost turns, a turn was missed, or the fallback takes over. Two are
// information: a pause that this limiter asks for, and that Redis decides again.
// Everything else is for debugging, about five lines a turn.
//
// The lines do not name the limiter. Pass l.With("limiter", name) if they
// should. If l is nil, each line goes to what [slog.Default] is at that moment.
func LogTrace(l *slog.Logger) *Trace {
	log := logTo{l}
	return &Trace{
		Entered: func(permits int) { log.debug("caller waits", nil, "permits", permits) },
		Left: func(permits int, waited time.Duration, err error) {
			log.debug("caller leaves", err, "permits", permits, "waited", waited)
		},
		Granted: func(permits int, wait time.Duration) {
			log.debug("turn granted", nil, "permits", permits, "wait", wait)
		},
		Reserved: func(permits int, slot time.Time) {
			log.debug("reserved", nil, "permits", permits, "slot", slot)
		},
		Unreserved: func(permits int, slot time.Time) {
			log.debug("unreserved", nil, "permits", permits, "slot", slot)
		},
		Refused: func(permits int, err error) { log.debug("refused", err, "permits", permits) },
		Taken: func(permits int, lateness time.Duration, confirmed bool) {
			log.debug("turn taken", nil, "permits", permits, "lateness", lateness, "confirmed", confirmed)
		},
		Missed: func(permits int, lateness time.Duration) {
			log.write(slog.LevelWarn, "turn missed", nil, "permits", permits, "lateness", lateness)
		},
		GivenBack: func(permits int, err error) { log.debug("given back", err, "permits", permits) },
		Settled: func(unit string, reserved, used int) {
			log.debug("settled", nil, "unit", unit, "reserved", reserved, "used", used)
		},
		Asked: func(op string, callers int, took time.Duration, err error) {
			log.debug("asked", err, "op", op, "callers", callers, "took", took)
		},
		Paused: func(d time.Duration) { log.write(slog.LevelInfo, "pauses", nil, "for", d) },
		Lost:   func() { log.write(slog.LevelWarn, "Redis had lost turns, they count again", nil) },
		FellBack: func(because error) {
			if because == nil {
				log.write(slog.LevelInfo, "Redis decides again", nil)
			} else {
				log.write(slog.LevelWarn, "the fallback takes over", because)
			}
		},
	}
}

// logTo is a log, nil for the default one.
type logTo struct{ *slog.Logger }

func (l logTo) debug(what string, err error, more ...any) {
	l.write(slog.LevelDebug, what, err, more...)
}

// write writes what, more, and the error if there is one.
func (l logTo) write(level slog.Level, what string, err error, more ...any) {
	to := l.Logger
	if to == nil {
		to = slog.Default()
	}
	if err != nil {
		more = append(more, "error", err)
	}
	to.Log(context.Background(), level, "fairlimit: "+what, more...)
}
