package metrics

// Metric is one that both modules export. Its name begins with "fairlimit.".
type Metric struct {
	Name string // in the manner of OpenTelemetry
	Unit string // likewise, "s" for seconds, empty for none
	Help string
}

// The metrics, of this process unless they say otherwise.
var (
	WaitDuration = Metric{
		"fairlimit.wait.duration", "s",
		"Time from a call of Wait to its turn, of those who went.",
	}
	Permits = Metric{
		"fairlimit.permits", "{permit}",
		"Permits by outcome. A turn is granted, and then taken, missed or given back.",
	}
	CallersWaiting = Metric{
		"fairlimit.callers.waiting", "{caller}",
		"Callers that wait for their turn.",
	}
	PermitsAhead = Metric{
		"fairlimit.permits.ahead", "{permit}",
		"Permits of callers that wait, and of reservations whose slot lies ahead.",
	}
	WakeLateness = Metric{
		"fairlimit.wake.lateness", "s",
		"How long after its slot a caller woke, to take the turn or to miss it.",
	}
	Questions = Metric{
		"fairlimit.questions", "{question}",
		"Questions that the engine was asked, by kind and by whether they failed.",
	}
	QuestionCallers = Metric{
		"fairlimit.question.callers", "{caller}",
		"Callers that one question for permits was for.",
	}
	Pauses = Metric{
		"fairlimit.pauses", "{pause}",
		"Pauses of the queue that this limiter sent.",
	}
	PauseRemaining = Metric{
		"fairlimit.pause.remaining", "s",
		"How much longer the queue is paused, as far as this process knows.",
	}
	Losses = Metric{
		"fairlimit.losses", "{loss}",
		"How often Redis had lost turns that this limiter made count again.",
	}
	Degraded = Metric{
		"fairlimit.degraded", "",
		"1 while the fallback decides, else 0.",
	}
	QueuePermits = Metric{
		"fairlimit.queue.permits", "{permit}",
		"Permits granted for the future, to all processes.",
	}
	QueueDelay = Metric{
		"fairlimit.queue.delay", "s",
		"The wait that one more permit would get, in any process.",
	}
	Available = Metric{
		"fairlimit.available", "{permit}",
		"Permits that can be had without waiting, in any process.",
	}
	Settled = Metric{
		"fairlimit.settled", "{amount}",
		"Of turns that were settled, by unit: what they had reserved and used, the refunds, and the debts.",
	}
	UnitQueued = Metric{
		"fairlimit.unit.queued", "{amount}",
		"How much of a unit is granted or owed for the future, to all processes.",
	}
	UnitAvailable = Metric{
		"fairlimit.unit.available", "{amount}",
		"How much of a unit can be had without waiting, in any process.",
	}
	StatusFailures = Metric{
		"fairlimit.status.failures", "{failure}",
		"Looks that had to do without the state of the queue, because Redis did not answer.",
	}
)

// Upper bounds of the buckets of histograms. A wait may last hours, and a wake
// should be late by about a millisecond.
var (
	WaitBounds = []float64{
		.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600,
	}
	LatenessBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	CallersBounds  = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// The names of labels, which OpenTelemetry calls attributes.
const (
	LimiterLabel = "limiter"
	OutcomeLabel = "outcome"
	OpLabel      = "op"
	FailedLabel  = "failed"
	UnitLabel    = "unit"
	PartLabel    = "part"
)

// Ops are the questions that there are; see [fairlimit.Trace].
var Ops = []string{"take", "release", "status", "reset", "look", "pause", "quotas", "set quotas"}

// Outcome is what becomes of permits.
type Outcome int

const (
	Granted   Outcome = iota // a caller was granted a turn
	Taken                    // a caller went with it
	Missed                   // it was not taken because it was late
	GivenBack                // what nobody used was given back
	Refused                  // a caller was told that its turn would come too late
	Left                     // a caller left, because its ctx ended
	Failed                   // a caller got any other error
)

// Outcomes are the words for them, by [Outcome].
var Outcomes = [...]string{"granted", "taken", "missed", "given_back", "refused", "left", "failed"}

// Parts are the values of the label "part", in the order of [PartsOf].
var Parts = [...]string{"reserved", "used", "refund", "debt"}

// PartsOf is what a settlement adds to each.
func PartsOf(reserved, used int) [len(Parts)]int {
	return [...]int{reserved, used, max(0, reserved-used), max(0, used-reserved)}
}
