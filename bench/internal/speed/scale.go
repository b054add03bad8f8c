package speed

import "time"

// Scale is how much is measured.
type Scale struct {
	Rounds   int           // of yardstick and ours in turn
	Round    time.Duration // how long each of the two is measured in a round, where time counts
	Calls    int           // how often each of the two is called in a round, where calls count
	Windows  float64       // of traffic before what is spread over the window is measured
	Callers  int           // on one name at once
	Burst    int           // callers that come at once
	Sleepers int
	Rest     time.Duration // how long sleepers are watched
	Limiters int
	Queue    [2]int // short and long, in slots
}

// Full is what the figures in the documentation were measured with.
var Full = Scale{
	Rounds: 7, Round: 500 * time.Millisecond, Calls: 400, Windows: 2.2,
	Callers: 1024, Burst: 200, Sleepers: 10_000, Rest: 5 * time.Second, Limiters: 100_000, Queue: [2]int{1000, 100_000},
}

// Quick is for a look in between: fewer and shorter rounds of the same.
var Quick = Scale{
	Rounds: 3, Round: 300 * time.Millisecond, Calls: 200, Windows: 2.2,
	Callers: 1024, Burst: 200, Sleepers: 10_000, Rest: 2 * time.Second, Limiters: 20_000, Queue: [2]int{1000, 100_000},
}
