// Package report says what was measured: to a person as a table, to a program
// as JSON.
package report

import (
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Report is one scenario over all engines. It is the JSON that the program
// writes.
type Report struct {
	Scenario string  `json:"scenario"`
	Backend  string  `json:"backend"`
	Seed     uint64  `json:"seed"`
	Quota    Quota   `json:"quota"`
	Clients  int     `json:"clients"`
	Callers  int     `json:"callers"`
	Seconds  float64 `json:"seconds"` // asked for

	// StallMS is the longest time by which a plain sleep was late. Calls and
	// arrivals must be ApartMS from each other for their order to count.
	StallMS measure.MS `json:"stall_ms"`
	ApartMS measure.MS `json:"apart_ms"`
	Engines []Engine   `json:"engines"`

	// Goal is null if the scenario has no goal, or if the engine that the goal
	// is for was not measured.
	Goal *Goal `json:"goal"`

	of   scenario.Scenario
	load scenario.Load
}

// Quota is what was asked for. What an engine could be given stands with the
// engine.
type Quota struct {
	Permits int        `json:"permits"`
	PerMS   measure.MS `json:"per_ms"`
	Burst   int        `json:"burst"`
	GuardMS measure.MS `json:"guard_ms"`
	Input   int        `json:"input,omitempty"`  // tokens in a window
	Output  int        `json:"output,omitempty"` // likewise
}

// Engine is one engine's figures.
type Engine struct {
	Name    string     `json:"engine"`
	GuardMS measure.MS `json:"guard_ms"` // that the engine was given
	Burst   int        `json:"burst"`    // likewise
	Seconds float64    `json:"seconds"`  // measured
	measure.Figures
	RedisCallsPerGrant float64  `json:"redis_calls_per_grant"`
	Faults             []string `json:"faults,omitempty"`

	// RedisMicrosPerGrant is for how long the server ran commands. It is null if
	// the server does not say.
	RedisMicrosPerGrant *float64 `json:"redis_us_per_grant"`

	Incidents []run.Incident `json:"incidents,omitempty"` // that the scenario is about
}

// Of puts the results of one scenario, of which there is at least one and which
// were judged, together.
func Of(results []*run.Result) Report {
	t := results[0].Trial
	r := Report{
		Scenario: t.Scenario.Name, Backend: t.Backend.Name, Seed: t.Load.Seed,
		Quota: Quota{
			Permits: t.Load.Quota.Permits, PerMS: measure.MS(t.Load.Quota.Per),
			Burst: t.Load.Quota.Burst, GuardMS: measure.MS(t.Load.Guard),
			Input: t.Load.Input, Output: t.Load.Output,
		},
		Clients: t.Load.Clients, Callers: t.Load.Callers, Seconds: t.Load.Duration.Seconds(),
		ApartMS: measure.MS(results[0].Apart),
		of:      t.Scenario, load: t.Load,
	}
	for _, one := range results {
		r.StallMS = max(r.StallMS, measure.MS(one.WorstStall))
		grants := float64(max(1, one.Figures.Grants))
		given := one.Trial.Engine.Given(t.Load)
		e := Engine{
			Name: one.Trial.Engine.Name, GuardMS: measure.MS(given.Guard), Burst: given.Quota.Burst,
			Seconds:            (one.Log.End - one.Log.Begin).Seconds(),
			Figures:            one.Figures,
			RedisCallsPerGrant: float64(one.RedisCalls) / grants,
			Faults:             one.Faults, Incidents: one.Incidents,
		}
		if one.RedisTime > 0 {
			micros := float64(one.RedisTime.Microseconds()) / grants
			e.RedisMicrosPerGrant = &micros
		}
		r.Engines = append(r.Engines, e)
	}
	r.Goal = r.goalOf()
	return r
}
