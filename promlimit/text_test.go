package promlimit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
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
			limitertest.Happens(trace)
			trace.Missed(1, 20*time.Second)
			trace.Asked("look", 1, time.Millisecond, context.Canceled)
			trace.Asked("pause", 1, time.Millisecond, nil) // from here on the Status says how long
		}
		limiter := &limitertest.Standing{As: fairlimit.Status{Available: 3, Queued: 4, Delay: 2500 * time.Millisecond}}
		limiter.As.Units = map[string]fairlimit.UnitStatus{"tokens": {Available: 5, Queued: 6}, "input": {}}
		library.Watch(limiter)
		own.Watch(limiter)
		var text bytes.Buffer
		require.NoError(t, promtext.Write(t.Context(), &text, []*promtext.Metrics{own}))
		require.ElementsMatch(t, exposed(t, library), strings.Split(text.String(), "\n"))
	}
}
