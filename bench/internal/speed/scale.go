package speed

import "time"

// Scale is how much is measured.
type Scale struct {
	Rounds   int           // of yardstick and ours in turn
	Round    time.Duration // how long each of the two is measured in a round, where time counts
	Calls    int           // how often each of the two is called in a round, where calls count
	Window   time.Duration // that is filled before a crowded queue is measured
	Callers  int           // on one name at once
	Burst    int           // callers that come at once
	Sleepers int
	Limiters int
	Queue    [2]int // short and long, in turns
}

// Full is what the figures in the documentation were measured with.
var Full = Scale{
	Rounds: 7, Round: 500 * time.Millisecond, Calls: 400, Window: time.Second,
	Callers: 1024, Burst: 200, Sleepers: 10_000, Limiters: 100_000, Queue: [2]int{1000, 100_000},
}

// Quick is for a look in between: fewer and shorter rounds of the same.
var Quick = Scale{
	Rounds: 3, Round: 300 * time.Millisecond, Calls: 200, Window: time.Second,
	Callers: 1024, Burst: 200, Sleepers: 10_000, Limiters: 20_000, Queue: [2]int{1000, 100_000},
}
