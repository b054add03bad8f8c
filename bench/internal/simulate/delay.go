package simulate

import (
	"math/rand/v2"
	"time"
)

// The delays are those of machines in one data centre: a part that is always
// there and one that varies, exponentially, up to a bound. Together they spread
// over at most 6 ms.
const (
	wireLeast = 50 * time.Microsecond
	wireMean  = 100 * time.Microsecond
	timerMean = 200 * time.Microsecond
	bound     = 2 * time.Millisecond
)

// wire is one way over the network.
func wire(rng *rand.Rand) time.Duration { return wireLeast + varying(rng, wireMean) }

// timer is by how much a timer is late.
func timer(rng *rand.Rand) time.Duration { return varying(rng, timerMean) }

// none is no delay, apart from the wait for the event's own nanosecond.
func none(*rand.Rand) time.Duration { return 0 }

func varying(rng *rand.Rand, mean time.Duration) time.Duration {
	return min(bound, time.Duration(rng.ExpFloat64()*float64(mean)))
}
