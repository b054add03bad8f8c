package fairlimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

func TestARefusalNamesTheNearestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for want, request := range map[string]coalesce.Request{
			"an immediate turn":         {},
			"WithMaxWait (30s left)":    {MaxWait: 30 * time.Second, Deadline: in(time.Minute)},
			"ctx's deadline (in 5s)":    {MaxWait: 30 * time.Second, Deadline: in(5 * time.Second)},
			"ctx's deadline (12ms ago)": {MaxWait: 30 * time.Second, Deadline: in(-12 * time.Millisecond)},
		} {
			assert.Equal(t, want, limit(&request))
		}
	})
}
