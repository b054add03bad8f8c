package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// Shares is the goal where each client is a flow. It is for fair+flows.
type Shares struct {
	Least measure.Part // part of all permits that the worst-off client is to get
	Used  measure.Part // part of the quota that is to be used
	Wait  float64      // times what the modest wait among themselves; 0: that is not measured
}

// sharers are the engines that these scenarios compare unless a flag names
// others.
const sharers = "fair+flows,redis_rate,bottleneck,bullmq"

// few are the scenarios in which a client with few callers shares a quota with
// one that has many. What a share is worth depends on the quota's shape.
func few() (all []Scenario) {
	for _, callers := range []int{3, 1} {
		goal := Shares{Least: 0.45, Used: 0.97}
		if callers == 1 {
			goal.Least = 0.4
		}
		for _, shape := range []struct {
			name  string
			quota Quota
		}{
			{"every", Quota{Permits: 1, Per: 50 * time.Millisecond}},
			{"second", Quota{Permits: 20, Per: time.Second}},
			{"burst", Quota{Permits: 20, Per: time.Second, Burst: 5}},
		} {
			all = append(all, Scenario{
				Name:    fmt.Sprintf("few-%d-%s", callers, shape.name),
				About:   fmt.Sprintf("one client has 200 callers, another has %d", callers),
				Load:    Load{Quota: shape.quota, Clients: 2, Callers: callers, Duration: 20 * time.Second},
				Engines: sharers,
				Shares:  &goal,
				Callers: first(func(Load) int { return 200 }),
				Behave:  steady.Behave,
			})
		}
	}
	return all
}

var tenants = Scenario{
	Name:  "tenants",
	About: "20 tenants with a ceiling each; four always want more, and the others come and go",
	Load: Load{
		Quota:   Quota{Permits: 10, Per: time.Second},
		Ceiling: Quota{Permits: 2, Per: time.Second},
		Clients: 20, Callers: 1, Duration: 24 * time.Second,
	},
	Engines: sharers,
	Shares:  &Shares{Used: 0.97, Wait: 2},
	Callers: func(l Load, client int) int {
		switch {
		case !greedyTenant(l, client):
			return l.Callers
		case l.Modest:
			return 0
		default:
			return 20 * l.Callers
		}
	},
	Behave: func(ctx context.Context, me Caller) {
		if greedyTenant(me.Load, me.Client) {
			steady.Behave(ctx, me)
			return
		}
		quarter := me.Load.Duration / 4
		for sleep(ctx, quarter) { // only the greedy call
			for end := time.Now().Add(quarter); time.Now().Before(end) && ctx.Err() == nil; {
				me.Call(ctx, 1)
			}
		}
	},
}

// greedyTenant says who is greedy: four tenants, but not all.
func greedyTenant(l Load, client int) bool { return client < min(4, l.Clients-1) }
