package llmtest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Crowd is the callers of some processes. Each asks again as soon as it has its
// answer.
type Crowd struct {
	Processes int
	Callers   int           // of each process
	Calls     int           // of each caller
	Token     time.Duration // how long one takes to write
}

// All is how many calls all of them make.
func (c Crowd) All() int { return c.Processes * c.Callers * c.Calls }

// Run lets the callers of one process ask. The number of a request is when it was
// asked, in nanoseconds. Every other process wants streams.
func (c Crowd) Run(t *testing.T, process int, say func(question string, stream bool) error) {
	var all sync.WaitGroup
	for caller := range c.Callers {
		random := rand.New(rand.NewPCG(uint64(process), uint64(caller)))
		all.Go(func() {
			time.Sleep(time.Duration(process+c.Processes*caller) * time.Millisecond)
			for range c.Calls {
				tokens := int(200 * math.Exp(0.6*random.NormFloat64()))
				asked := int(time.Now().UnixNano())
				assert.NoError(t, say(Ask(asked, tokens, time.Duration(tokens)*c.Token), process%2 == 0))
			}
		})
	}
	all.Wait()
}

const processVariable = "FAIRLIMIT_LLMTEST_PROCESS"

// Process is which process of a crowd this is, if it is one.
func Process() (process int, ok bool) {
	text, ok := os.LookupEnv(processVariable)
	if ok {
		process, _ = strconv.Atoi(text)
	}
	return process, ok
}

// Start runs the test once in each process, with variables of the environment,
// and returns when all have ended.
func (c Crowd) Start(t *testing.T, variables ...string) {
	var all sync.WaitGroup
	for process := range c.Processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), append(variables, processVariable+"="+strconv.Itoa(process))...)
		all.Go(func() {
			out, err := cmd.CombinedOutput()
			assert.NoErrorf(t, err, "%s", out)
		})
	}
	all.Wait()
}

// Overtaken is how many calls came after one that was asked later, by more than
// what is tolerated.
func Overtaken(calls []Call, tolerated time.Duration) (n int) {
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Number, b.Number)) })
	latest := 0
	for _, c := range calls {
		if c.Number < latest-int(tolerated) {
			n++
		}
		latest = max(latest, c.Number)
	}
	return n
}

// Used wants every call to have been let through, more than 80 % of what a unit's
// quota allows per window to be used, and no window to hold more than the most.
func (c Crowd) Used(t *testing.T, u *Upstream, unit string, per, took time.Duration, most int) {
	assert.Len(t, u.Calls(), c.All())
	assert.Zero(t, u.Refused())
	quota := u.budgets[unit].Permits
	used, worst := u.Used(unit)
	windows := 1 + float64(took)/float64(per) // the first one begins empty
	part := float64(used) / float64(quota) / windows
	t.Logf("%.0f %% of %q used, the fullest window held %d of %d", 100*part, unit, worst, quota)
	assert.Greater(t, part, 0.8)
	assert.LessOrEqual(t, worst, most)
}
