package promlimit_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/promtext"
	"github.com/fairlimit/fairlimit/promlimit"
)

// The metrics that fairlimit serve writes by itself are these, under names that
// need to be escaped as well.
func TestTheTextWithoutTheClientLibraryIsTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tax", "a \"b\"\n\\c\x80é"} {
		library, own := promlimit.New(name), promtext.New(name)
		for _, trace := range []*fairlimit.Trace{library.Trace(), own.Trace()} {
			trace.Entered(2)
			trace.Granted(2, time.Second)
			trace.Taken(2, 3*time.Millisecond, true)
			trace.Left(2, 1500*time.Millisecond, nil)
			trace.Missed(1, 20*time.Second)
			trace.GivenBack(1, nil)
			trace.Refused(3, context.Canceled)
			trace.Asked("take", 17, time.Millisecond, nil)
			trace.Asked("look", 1, time.Millisecond, context.Canceled)
			trace.Lost()
			trace.Entered(5)
		}
		limiter := fixed{fairlimit.Status{Available: 3, Queued: 4, Delay: 2500 * time.Millisecond}}
		library.Watch(limiter)
		own.Watch(limiter)
		var text bytes.Buffer
		require.NoError(t, promtext.Write(t.Context(), &text, []*promtext.Metrics{own}))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(library)
		answer := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		require.ElementsMatch(t, strings.Split(answer.Body.String(), "\n"), strings.Split(text.String(), "\n"))
	}
}

// fixed is a limiter of which only the Status is asked.
type fixed struct{ status fairlimit.Status }

func (f fixed) Status(context.Context) (fairlimit.Status, error) { return f.status, nil }
func (fixed) Wait(context.Context) error                         { return nil }
func (fixed) WaitN(context.Context, int) error                   { return nil }
func (fixed) Allow(context.Context) (bool, error)                { return false, nil }
func (fixed) AllowN(context.Context, int) (bool, error)          { return false, nil }
func (fixed) Reset(context.Context) error                        { return nil }
