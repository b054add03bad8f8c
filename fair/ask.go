package fair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

// The scripts, one a question, each the parts that it needs.
var (
	takeScript    = script("thin", "restore", "write", "windows", "flow", "take")
	returnScript  = script("thin", "restore", "write", "giveback", "return")
	pauseScript   = script("thin", "restore", "write", "pause")
	resumeScript  = script("thin", "restore", "write", "resume")
	requeueScript = script("thin", "restore", "write", "requeue")
	storeScript   = script("thin", "restore", "write", "store", "requeue")
	statusScript  = script("windows", "status")
	lookScript    = lua.Assemble("fair", "open", "look")
)

func script(parts ...string) *lua.Script {
	return lua.Assemble("fair", append([]string{"open", "log"}, parts...)...)
}

// question is what one script is asked.
type question struct {
	script *lua.Script
	args   func(*rules, []any) []any // appends to the header
	obeys  bool                      // it goes by stored quotas, if the limiter does
	reads  bool                      // it writes nothing: what the limiter was told stays its own
	flow   string                    // whose log it needs, "" for none
}

// errChanged says that the quotas, or the units of the queue, are others. The
// limiter goes by them now, and the question is to be asked again.
var errChanged = errors.New("other quotas hold")

// mostTries is how often a question is asked because of [errChanged].
const mostTries = 5

// again asks by the rules that hold, and asks again if these turn out to be others.
func (q *queue) again(ask func(*rules) error) error {
	for range mostTries {
		if err := ask(q.rules.Load()); !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("%w: %q: its quotas or units change again and again", engine.ErrState, q.key)
}

// ask asks once.
func (q *queue) ask(ctx context.Context, r *rules, a question) (*reply, error) {
	raw, sent, err := a.script.Run(ctx, q.client, q.keys(r, a.flow), a.args(r, q.header(r, &a))...)
	arrived := time.Now()
	if err != nil {
		return nil, q.adopts(q.explain(err))
	}
	if text, other := otherQuotas(raw); other {
		return nil, q.obey(text)
	}
	reply, err := decode(raw, r, a.reads)
	if err != nil {
		return nil, err
	}
	reply.news.Sent, reply.news.Arrived, reply.news.Guard = sent, arrived, r.guard
	q.told.learn(reply, sent)
	return reply, nil
}

// keys are those of every script: see lua/fair/open.lua.
func (q *queue) keys(r *rules, flow string) []string {
	keys := append(make([]string, 0, 6), q.key)
	keys = append(keys, logKeys(q.key, r.names)...)
	return append(keys, q.key+":flows", q.quotaKey(), q.key+":flow:"+flow)
}

func (q *queue) quotaKey() string { return q.key + ":quota" }

// logKeys are the keys of the logs of units.
func logKeys(key, names string) []string {
	if names == unknown {
		names = calls
	}
	keys := strings.Split(names, ",")
	for i, name := range keys {
		keys[i] = key + ":" + name
	}
	return keys
}

// header is what every script is told first: see lua/fair/open.lua.
func (q *queue) header(r *rules, a *question) []any {
	head, totals := q.told.recall(r.names, len(r.logs))
	if a.reads {
		head = ""
	}
	stored := "-"
	if q.stored && a.obeys {
		stored = r.text
	}
	return append(append(make([]any, 0, 32), head, r.span, r.names, stored), totals...)
}

// nothing is the arguments of a script that needs no more than the header.
func nothing(_ *rules, header []any) []any { return header }

// otherQuotas is the text of stored quotas that are not those of the question.
func otherQuotas(raw any) (text string, other bool) {
	words, _ := raw.([]any)
	if len(words) != 2 || words[0] != "QUOTAS" {
		return "", false
	}
	text, _ = words[1].(string)
	return text, true
}

// obey goes by stored quotas from now on. It returns [errChanged], unless they
// cannot be read.
func (q *queue) obey(text string) error {
	r, err := q.given.withText(text, q.guard)
	if err != nil {
		return fmt.Errorf("%w: %q: SetQuotas or ForgetQuotas clears it: %w", engine.ErrState, q.quotaKey(), err)
	}
	q.rules.Store(r)
	return errChanged
}

// unitsError says that the queue has other units than the limiter.
type unitsError struct {
	key, names string // of the queue
	own        string
	cause      error
}

func (e *unitsError) Error() string {
	return fmt.Sprintf("fairlimit: %q counts %s, this limiter %s: give all limiters of a name the same units",
		e.key, e.names, e.own)
}

func (e *unitsError) Unwrap() []error { return []error{engine.ErrUnsupported, e.cause} }

// adopts returns the error, or [errChanged] if the limiter was made without any
// quota, and takes the units that the queue has.
func (q *queue) adopts(err error) error {
	var other *unitsError
	r := q.rules.Load()
	if !q.opened || len(r.calls) > 0 || !errors.As(err, &other) {
		return err
	}
	q.rules.Store(r.withUnits(other.names))
	return errChanged
}

// explain tells errors that a script stumbled over from others of Redis, which may
// put its own words in front.
func (q *queue) explain(err error) error {
	var refusal redis.Error
	if !errors.As(err, &refusal) {
		return err
	}
	text := refusal.Error()
	if _, names, found := strings.Cut(text, "UNITS "); found {
		names, _, _ = strings.Cut(names, " ")
		return &unitsError{q.key, names, strings.Replace(q.rules.Load().names, unknown, "nothing", 1), err}
	}
	for _, blames := range []string{"STATE ", "WRONGTYPE ", "attempt to ", "bad argument ", "not a valid float"} {
		if strings.Contains(text, blames) {
			return fmt.Errorf("%w: %q: %w", engine.ErrState, q.key, err)
		}
	}
	return err
}
