package fair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/lua"
)

// The scripts, one a question, each the parts that it needs.
var (
	takeScript    = script("thin", "restore", "write", "windows", "flow", "take")
	returnScript  = script("thin", "restore", "write", "return")
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
}

// errChanged says that the quotas, or the units of the queue, are others. The
// limiter goes by them now, and the question is to be asked again.
var errChanged = errors.New("other quotas hold")

// mostTries is how often a question is asked because of [errChanged].
const mostTries = 5

// ask asks by the rules that hold, and asks again if these turn out to be others.
func (q *queue) ask(ctx context.Context, a question) (*reply, error) {
	for range mostTries {
		if reply, err := q.askBy(ctx, q.rules.Load(), a); !errors.Is(err, errChanged) {
			return reply, err
		}
	}
	return nil, fmt.Errorf("%w: %q: its quotas or units change again and again", engine.ErrState, q.key)
}

// askBy asks once.
func (q *queue) askBy(ctx context.Context, r *rules, a question) (*reply, error) {
	raw, sent, err := a.script.Run(ctx, q.client, q.keys(r), a.args(r, q.header(r, a.obeys))...)
	arrived := time.Now()
	if err != nil {
		return nil, q.explain(err)
	}
	if text, other := otherQuotas(raw); other {
		if err := q.obey(text); err != nil {
			return nil, err
		}
		return nil, errChanged
	}
	reply, err := decode(raw)
	if err != nil {
		return nil, err
	}
	reply.rules = r
	reply.news.Sent, reply.news.Arrived, reply.news.Guard = sent, arrived, r.guard
	if reply.wrote {
		q.told.keep(reply.text, sent)
	}
	return reply, nil
}

// keys are those of every script: see lua/fair/open.lua.
func (q *queue) keys(r *rules) []string {
	keys := append(make([]string, 0, 6), q.key, q.flowsKey(), q.quotaKey(), q.flowKey(q.flow.id))
	return append(keys, q.logKeys(r.names)...)
}

func (q *queue) flowsKey() string         { return q.key + ":flows" }
func (q *queue) quotaKey() string         { return q.key + ":quota" }
func (q *queue) flowKey(id string) string { return q.key + ":flow:" + id }

// logKeys are the keys of the logs that names tells of, such as "calls,tokens".
func (q *queue) logKeys(names string) (keys []string) {
	if names == unknown {
		names = calls
	}
	for _, name := range strings.Split(names, ",") {
		keys = append(keys, q.key+":"+name)
	}
	return keys
}

// header is what every script is told first: see lua/fair/open.lua.
func (q *queue) header(r *rules, obeys bool) []any {
	stored := "-"
	if q.stored && obeys {
		stored = r.text
	}
	return append(make([]any, 0, 32), q.told.recall(), r.span, r.names, stored)
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

// obey goes by stored quotas from now on, unless they cannot be read.
func (q *queue) obey(text string) error {
	r, err := q.given.withText(text, q.guard)
	if err != nil {
		return fmt.Errorf("%w: %q: SetQuotas or ForgetQuotas clears it: %w", engine.ErrState, q.quotaKey(), err)
	}
	q.rules.Store(r)
	return nil
}

// explain marks the errors of a script: a bad state, other units. Redis may put words
// of its own in front, so explain searches the text.
func (q *queue) explain(err error) error {
	var refusal redis.Error
	if !errors.As(err, &refusal) {
		return err
	}
	text := refusal.Error()
	if _, names, found := strings.Cut(text, "UNITS "); found {
		names, _, _ = strings.Cut(names, " ")
		return q.adopt(names)
	}
	for _, blames := range []string{"STATE ", "WRONGTYPE ", "attempt to ", "bad argument ", "not a valid float"} {
		if strings.Contains(text, blames) {
			return fmt.Errorf("%w: %q: %w", engine.ErrState, q.key, err)
		}
	}
	return err
}

// adopt returns [errChanged] if the limiter was made without any quota, and takes
// the units that the queue has.
func (q *queue) adopt(names string) error {
	r := q.rules.Load()
	if q.opened && len(r.calls) == 0 {
		q.rules.Store(r.withUnits(names))
		return errChanged
	}
	wanted := "give all limiters of a name the same units"
	if r.text != "" {
		wanted = "store the quotas of its units, as in '" + quotatext.FormatAll(r.calls)
		for _, unit := range strings.Split(names, ",")[1:] {
			wanted += "; " + unit + " …"
		}
		wanted += "'"
	}
	return fmt.Errorf("%w: the queue counts %s, this limiter counts %s: %s",
		engine.ErrUnsupported, counted(names), counted(r.names), wanted)
}

// counted is what logs of that name count, in words.
func counted(names string) string {
	if names == calls {
		return "calls only"
	}
	return strings.ReplaceAll(names, ",", " and ")
}
