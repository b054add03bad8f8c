package window

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

// The scripts, one an operation, each the parts that it needs.
var (
	takeScript    = lua.Assemble("window", "head", "count", "wait", "save", "take") // grants
	backScript    = lua.Assemble("window", "head", "count", "save", "back")         // gives back
	releaseScript = lua.Assemble("window", "head", "count", "save", "release")      // releases
	readScript    = lua.Assemble("window", "head", "count", "wait", "read")         // reads
	ruleScript    = lua.Assemble("window", "head", "count", "save", "rule")         // writes the rate
	forgetScript  = lua.Assemble("window", "head", "forget")                        // deletes
)

// place is where one limiter is kept.
type place struct {
	client redis.UniversalClient
	keys   keys
}

// run runs a script once. An error for which the keys are to blame matches
// [engine.ErrState].
func (p *place) run(ctx context.Context, script *lua.Script, args ...any) (numbers []int64, _ engine.News, _ error) {
	if err := ctx.Err(); err != nil {
		return nil, engine.News{}, err
	}
	reply, sent, err := script.Run(ctx, p.client, p.keys[:], args...)
	var refusal redis.Error
	if errors.As(err, &refusal) {
		// Redis 6.2 puts its own words in front of an error that a script
		// raises.
		if text := refusal.Error(); strings.Contains(text, "STATE ") || strings.Contains(text, "WRONGTYPE") {
			err = fmt.Errorf("%w: %w", engine.ErrState, err)
		}
	}
	if err != nil {
		return nil, engine.News{}, err
	}
	elements, isList := reply.([]any)
	if !isList {
		elements = []any{reply}
	}
	for _, element := range elements {
		number, ok := element.(int64)
		if !ok {
			return nil, engine.News{}, unexpected(reply)
		}
		numbers = append(numbers, number)
	}
	return numbers, engine.News{Sent: sent, Arrived: time.Now()}, nil
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: the script replied %v", engine.ErrOutcomeUnknown, reply)
}

// newGrant is a grant of n permits as it stands in the set: the number of
// random bytes, so many of them, and n in four bytes, little-endian. Redisson's
// own have 16 random bytes, 8 in versions 3.17 to 3.20.
func newGrant(n int) string {
	b := make([]byte, 0, 21)
	b = append(b, 16)
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return string(b)
}

// state is what the reader's script returns.
type state struct {
	found bool // there is a rate
	rate  Rate
	left  int
	delay time.Duration // for one permit
}

func stateOf(numbers []int64, _ engine.News, err error) (state, error) {
	switch {
	case err != nil || len(numbers) == 0:
		return state{}, err
	case len(numbers) != 6:
		return state{}, unexpected(numbers)
	}
	return state{
		found: true,
		rate: Rate{
			Permits:   int(numbers[0]),
			Per:       time.Duration(numbers[1]) * time.Millisecond,
			Mode:      Mode(numbers[2]),
			KeepAlive: time.Duration(numbers[3]) * time.Millisecond,
		},
		left:  int(numbers[4]),
		delay: time.Duration(numbers[5]) * time.Microsecond,
	}, nil
}
