package scenario

// greed is how many callers the greedy client has for one of the others'.
const greed = 50

var greedy = Scenario{
	Name:  "greedy",
	About: "one client has fifty callers, the others have one each",
	// A client with one caller can hold no more than one permit ahead. So that it
	// is a fair share, permits go one by one, and flows do not look far ahead.
	Load: Load{
		Quota: Quota{Permits: 20, Per: Default.Quota.Per, Burst: 1}, Clients: 10, Callers: 1,
	},
	Callers: func(l Load, client int) int {
		if client == 0 {
			return greed * l.Callers
		}
		return l.Callers
	},
	Behave: steady.Behave,
}
