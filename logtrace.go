package fairlimit

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// LogTrace returns a [Trace] that writes to a log. Four things are warnings:
// Redis had lost turns, a turn was missed, other limiters of the name have other
// quotas, or the fallback takes over. Two are
// information: a pause, and that Redis decides again. Everything else is for
// debugging, about five lines a turn.
//
// The lines do not name the limiter. Pass l.With("limiter", name) if they
// should. If l is nil, each line goes to what [slog.Default] is at that moment.
func LogTrace(l *slog.Logger) *Trace {
	log := logTo{l}
	return &Trace{
		Entered: func(permits int) { log.debug("caller waits", slog.Int("permits", permits)) },
		Left: func(permits int, waited time.Duration, err error) {
			log.debug("caller leaves", slog.Int("permits", permits), slog.Duration("waited", waited), cause(err))
		},
		Granted: func(permits int, wait time.Duration) {
			log.debug("turn granted", slog.Int("permits", permits), slog.Duration("wait", wait))
		},
		Reserved: func(permits int, slot time.Time) {
			log.debug("reserved", slog.Int("permits", permits), slog.Time("slot", slot))
		},
		Unreserved: func(permits int, slot time.Time) {
			log.debug("unreserved", slog.Int("permits", permits), slog.Time("slot", slot))
		},
		Refused: func(permits int, err error) { log.debug("refused", slog.Int("permits", permits), cause(err)) },
		Taken: func(permits int, lateness time.Duration, confirmed bool) {
			log.debug("turn taken",
				slog.Int("permits", permits), slog.Duration("lateness", lateness), slog.Bool("confirmed", confirmed))
		},
		Missed: func(permits int, lateness time.Duration) {
			log.warn("turn missed", slog.Int("permits", permits), slog.Duration("lateness", lateness))
		},
		GivenBack: func(permits int, err error) { log.debug("given back", slog.Int("permits", permits), cause(err)) },
		Asked: func(op string, callers int, took time.Duration, err error) {
			log.debug("asked", slog.String("op", op), slog.Int("callers", callers), slog.Duration("took", took),
				cause(err))
		},
		Paused: func(d time.Duration) { log.info("pauses", slog.Duration("for", d)) },
		Lost:   func() { log.warn("Redis had lost turns, they count again") },
		QuotasDiffer: func(own []Quota) {
			log.warn("other limiters of this name have other quotas, or another guard",
				slog.String("own", fmt.Sprint(own)))
		},
		FellBack: log.fellBack,
	}
}

// logTo is a log, nil for the default one.
type logTo struct{ *slog.Logger }

func (l logTo) debug(what string, more ...slog.Attr) { l.write(slog.LevelDebug, what, more) }
func (l logTo) info(what string, more ...slog.Attr)  { l.write(slog.LevelInfo, what, more) }
func (l logTo) warn(what string, more ...slog.Attr)  { l.write(slog.LevelWarn, what, more) }

func (l logTo) write(level slog.Level, what string, more []slog.Attr) {
	to := l.Logger
	if to == nil {
		to = slog.Default()
	}
	to.LogAttrs(context.Background(), level, "fairlimit: "+what, more...)
}

func (l logTo) fellBack(because error) {
	if because == nil {
		l.info("Redis decides again")
		return
	}
	l.warn("the fallback takes over", cause(because))
}

// cause is an error to log, nothing if there is none.
func cause(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}
