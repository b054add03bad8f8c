package window

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

// The scripts, one an operation, each the parts that it needs.
var (
	takeScript    = lua.Assemble("window", "head", "count", "wait", "settle", "save", "take") // grants
	backScript    = lua.Assemble("window", "head", "count", "save", "free", "back")           // gives back
	releaseScript = lua.Assemble("window", "head", "count", "save", "free", "release")        // releases
	readScript    = lua.Assemble("window", "head", "count", "wait", "read")                   // reads
	ruleScript    = lua.Assemble("window", "head", "count", "save", "rule")                   // writes the rate
	forgetScript  = lua.Assemble("window", "head", "forget")                                  // deletes
)

// place is where one limiter is kept.
type place struct {
	client redis.UniversalClient
	keys   keys
	called string // what errors call the limiter, "" if whoever gets them knows
}

// run runs a script once. An error for which the keys are to blame matches
// [engine.ErrState].
func (p *place) run(ctx context.Context, script *lua.Script, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, _, err := script.Run(ctx, p.client, p.keys[:], args...)
	var refusal redis.Error
	if errors.As(err, &refusal) {
		// Redis 6.2 puts its own words in front of an error that a script
		// raises.
		if text := refusal.Error(); strings.Contains(text, "STATE ") || strings.Contains(text, "WRONGTYPE") {
			return nil, p.unreadable(err)
		}
	}
	return reply, err
}

func (p *place) unreadable(err error) error {
	if p.called == "" {
		return fmt.Errorf("%w: %w", engine.ErrState, err)
	}
	return fmt.Errorf("%w: %q: %w", engine.ErrState, p.called, err)
}

// answers decodes what the script returns for requests. If again is true,
// nothing was decided, and the question is to be asked again.
func answers(reply any, requests []engine.Request, grants []string) (_ []engine.Answer, again bool, _ error) {
	numbers, err := numbers(reply)
	if err != nil || len(numbers) == 0 {
		return nil, err == nil, err
	}
	rate, waits := numbers[0], numbers[1:]
	if len(waits) != len(requests) {
		return nil, false, unexpected(reply)
	}
	answers := make([]engine.Answer, len(waits))
	for i, wait := range waits {
		n := requests[i].N
		switch {
		case wait < 0:
			answers[i].Err = fmt.Errorf("%w: %d asked for, the rate is %d", engine.ErrExceedsQuota, n, rate)
		case wait == 0:
			answers[i] = engine.Answer{Granted: true, Grant: engine.Grant{ID: grants[i], N: n}}
		default:
			answers[i].Wait = time.Duration(wait) * time.Microsecond
		}
	}
	return answers, false, nil
}

// state is what a reader sees.
type state struct {
	rate  Rate
	left  int
	delay time.Duration // for one permit
}

// read reads the rate and what is left under it, by asking the reader's script.
// The words are the rate to assume if there is none. Without them, found tells
// whether there is one.
func read(ask func(args ...any) (any, error), words []any) (_ state, found bool, _ error) {
	for args := words; ; {
		reply, err := ask(args...)
		if err != nil {
			return state{}, false, err
		}
		if part, ok := reply.([]any); ok && len(part) == 4 { // how far it came
			args = append(slices.Clip(words), part...)
			continue
		}
		return decodeState(reply)
	}
}

// decodeState decodes what the script returns at the end.
func decodeState(reply any) (_ state, found bool, _ error) {
	numbers, err := numbers(reply)
	switch {
	case err != nil:
		return state{}, false, err
	case len(numbers) == 0:
		return state{}, false, nil
	case len(numbers) != 6:
		return state{}, false, unexpected(reply)
	}
	return state{
		rate: Rate{
			Permits:   int(numbers[0]),
			Per:       time.Duration(numbers[1]) * time.Millisecond,
			Mode:      Mode(numbers[2]),
			KeepAlive: time.Duration(numbers[3]) * time.Millisecond,
		},
		left:  int(numbers[4]),
		delay: time.Duration(numbers[5]) * time.Microsecond,
	}, true, nil
}

func numbers(reply any) ([]int64, error) {
	elements, ok := reply.([]any)
	if !ok {
		return nil, unexpected(reply)
	}
	numbers := make([]int64, 0, len(elements))
	for _, e := range elements {
		n, err := number(e)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func number(reply any) (int64, error) {
	n, ok := reply.(int64)
	if !ok {
		return 0, unexpected(reply)
	}
	return n, nil
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: the script replied %v", engine.ErrOutcomeUnknown, reply)
}
