package fairlimit_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit"
)

// goers lets so many callers wait, one after the other, and notes who went when.
type goers struct {
	mu    sync.Mutex
	order []int
	at    []time.Time
	all   sync.WaitGroup
}

func (g *goers) wait(t *testing.T, l fairlimit.Limiter, first, count int) {
	for who := first; who < first+count; who++ {
		g.all.Go(func() {
			if !assert.NoError(t, l.Wait(t.Context())) {
				return
			}
			g.goes(who)
		})
		synctest.Wait()
	}
}

func (g *goers) goes(who int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.order, g.at = append(g.order, who), append(g.at, time.Now())
}

// most is the most who went in any stretch of so long.
func (g *goers) most(per time.Duration) (most int) {
	slices.SortFunc(g.at, time.Time.Compare)
	for i := range g.at {
		in := 0
		for _, at := range g.at[i:] {
			if at.Sub(g.at[i]) < per {
				in++
			}
		}
		most = max(most, in)
	}
	return most
}
