package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// flow is a flow that used the queue when it was last written. The state knows
// its id by a hash only: see package fair.
type flow struct {
	Weight   int `json:"weight"`
	Limiters int `json:"limiters"`
}

var (
	flowsLine  = regexp.MustCompile(`(?m)^flows \d+( .*)$`)
	flowEntry  = regexp.MustCompile(` (\w{5})\w{3}/(\d+)/\d+/(\d+)`)
	clockField = regexp.MustCompile(` +(\d+) +\d+$`)
)

// flowsOf reads the flows of a state, in the order in which they came.
func flowsOf(state string) (flows []flow) {
	line, clock := flowsLine.FindStringSubmatch(state), clockField.FindStringSubmatch(state)
	if line == nil || clock == nil {
		return nil
	}
	now, _ := strconv.ParseInt(clock[1], 10, 64)
	known := map[string]int{}
	for _, e := range flowEntry.FindAllStringSubmatch(line[1], -1) {
		if until, _ := strconv.ParseInt(e[3], 10, 64); until <= now {
			continue
		}
		at, ok := known[e[1]]
		if !ok {
			at = len(flows)
			known[e[1]], flows = at, append(flows, flow{})
		}
		flows[at].Weight, _ = strconv.Atoi(e[2])
		flows[at].Limiters++
	}
	return flows
}

// flowsText is "3, of weights 1 1 2".
func flowsText(flows []flow) string {
	weights := make([]string, len(flows))
	for i, f := range flows {
		weights[i] = strconv.Itoa(f.Weight)
	}
	return fmt.Sprintf("%d, of weights %s", len(flows), strings.Join(weights, " "))
}
