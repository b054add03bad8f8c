package enginetest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestEveryCaseCanFail(t *testing.T) {
	for _, c := range cases {
		assert.NotEmpty(t, faults[c.name], "nothing breaks the case %q", c.name)
		for fault, build := range faults[c.name] {
			t.Run(c.name+"/"+fault, func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					assert.Error(t, c.check(t.Context(), build, rdb))
				})
			})
		}
	}
	assert.Len(t, faults, len(cases))
}

// An engine that ignores a field of its configuration fails some case.
func TestEveryFieldOfTheConfigurationIsHeldByACase(t *testing.T) {
	for i := range reflect.TypeFor[engine.Config]().NumField() {
		name := reflect.TypeFor[engine.Config]().Field(i).Name
		if name == "Client" || name == "OwnGuard" { // nothing works without the one, the other is up to the engine
			continue
		}
		ignores := misconfigured(func(cfg *engine.Config) { reflect.ValueOf(cfg).Elem().Field(i).SetZero() })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.True(t, slices.ContainsFunc(cases, func(c testCase) (fails bool) {
				redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
					fails = c.check(t.Context(), ignores, rdb) != nil
				})
				return fails
			}), "no case of the suite fails without it: add one, or leave it out above and say why")
		})
	}
}

// An engine as good as fair, except that it does not queue.
func TestAnEngineThatDoesNotQueuePasses(t *testing.T) {
	hasty := with(func(f *faulty) {
		f.queues = func() bool { return false }
		f.take = func(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
			requests = slices.Clone(requests)
			for i := range requests {
				requests[i].MaxWait = 0
			}
			return f.Steerer.Take(ctx, requests)
		}
	})
	Run(t, hasty, redistest.OnEach)
}
