package metrics

// Metric is one that both modules export. Its name begins with "fairlimit.".
type Metric struct {
	Name string // in the manner of OpenTelemetry
	Unit string // likewise, "s" for seconds, empty for none
	Help string
	Kind Kind

	Labels []string   // beside the limiter
	Known  [][]string // values of the labels that are there from the start
	Bounds []float64  // upper bounds of a histogram's buckets
}

// Kind is that of a metric.
type Kind int

const (
	Counter   Kind = iota // counted as it happens
	Histogram             // likewise
	Total                 // a counter that a look tells
	Sum                   // what a look tells; all processes can be added up
	Gauge                 // likewise; all processes cannot
)

// LimiterLabel is the label that each metric has. OpenTelemetry calls labels
// attributes.
const LimiterLabel = "limiter"

// All are the metrics, of this process unless they say otherwise.
var All = []*Metric{
	waitDuration, permits, callersWaiting, wakeLateness, questions, questionCallers, pauses, pauseRemaining, losses,
	degraded, statusFailures, queuePermits, queueDelay, available, settled, unitQueued, unitAvailable,
}

// What is counted as it happens. A wait may last hours, and a wake should be
// late by about a millisecond.
var (
	waitDuration = &Metric{
		Name: "fairlimit.wait.duration", Unit: "s", Kind: Histogram,
		Help:   "Time from a call of Wait to its turn, of those who went.",
		Bounds: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
	}
	permits = &Metric{
		Name: "fairlimit.permits", Unit: "{permit}", Labels: []string{"outcome"},
		Help:  "Permits by outcome. A turn is granted, and then taken, missed or given back.",
		Known: [][]string{{"granted"}, {"taken"}, {"missed"}, {"given_back"}, {"refused"}, {"left"}, {"invalid"}, {"failed"}},
	}
	wakeLateness = &Metric{
		Name: "fairlimit.wake.lateness", Unit: "s", Kind: Histogram,
		Help:   "How long after its slot a caller woke, to take the turn or to miss it.",
		Bounds: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}
	questions = &Metric{
		Name: "fairlimit.questions", Unit: "{question}", Labels: []string{"op", "failed"},
		Help: "Questions that the engine was asked, by kind and by whether they failed.",
		Known: knownQuestions("take", "release", "status", "reset", "look", "pause", "resume", "requeue", "quotas",
			"set quotas"),
	}
	questionCallers = &Metric{
		Name: "fairlimit.question.callers", Unit: "{caller}", Kind: Histogram,
		Help:   "Callers that one question for permits was for.",
		Bounds: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
	}
	pauses  = counted("pauses", "{pause}", "Pauses of the queue that this limiter sent.")
	losses  = counted("losses", "{loss}", "How often Redis had lost turns that this limiter made count again.")
	settled = counted("settled", "{amount}",
		"Of turns that were settled, by unit: what they had reserved and used, the refunds, and the debts.",
		"unit", "part")
)

func counted(name, unit, help string, labels ...string) *Metric {
	return &Metric{Name: "fairlimit." + name, Unit: unit, Help: help, Labels: labels}
}

// What a look tells.
var (
	callersWaiting = looked(Sum, "callers.waiting", "{caller}", "Callers that wait for their turn.")
	pauseRemaining = looked(Gauge, "pause.remaining", "s",
		"How much longer the queue is paused, as far as this process knows.")
	degraded       = looked(Gauge, "degraded", "", "1 while the fallback decides, else 0.")
	statusFailures = looked(Total, "status.failures", "{failure}",
		"Looks that had to do without the state of the queue, because Redis did not answer.")
	queuePermits = looked(Gauge, "queue.permits", "{permit}",
		"Permits granted for the future, to all processes.")
	queueDelay = looked(Gauge, "queue.delay", "s",
		"The wait that one more permit would get, in any process.")
	available = looked(Gauge, "available", "{permit}",
		"Permits that can be had without waiting, in any process.")
	unitQueued = looked(Gauge, "unit.queued", "{amount}",
		"How much of a unit is granted or owed for the future, to all processes.", "unit")
	unitAvailable = looked(Gauge, "unit.available", "{amount}",
		"How much of a unit can be had without waiting, in any process.", "unit")
)

func looked(kind Kind, name, unit, help string, labels ...string) *Metric {
	return &Metric{Name: "fairlimit." + name, Unit: unit, Help: help, Kind: kind, Labels: labels}
}

// knownQuestions are those of [fairlimit.Trace], by whether they failed.
func knownQuestions(ops ...string) (all [][]string) {
	for _, op := range ops {
		all = append(all, []string{op, "false"}, []string{op, "true"})
	}
	return all
}
