package scenario

import "github.com/fairlimit/fairlimit/bench/internal/load"

// greed is how many callers the greedy client has for one of the others'.
const greed = 50

var greedy = Scenario{
	Name:  "greedy",
	About: "one client has fifty callers, the others have one each",
	Load:  load.Load{Quota: load.Quota{Permits: 40, Per: load.Default.Quota.Per}, Clients: 10, Callers: 1},
	Callers: func(l load.Load, client int) int {
		if client == 0 {
			return greed * l.Callers
		}
		return l.Callers
	},
	Behave: steady.Behave,
}
