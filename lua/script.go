package lua

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

// A reply that proves that nothing was written is answered by asking again,
// after a pause that doubles between these two.
const (
	firstPause = time.Millisecond
	lastPause  = 64 * time.Millisecond
)

var provesNothingWritten = []string{"TRYAGAIN", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// noShard is the error of a redis.Ring without a server that answers. It has no
// name.
const noShard = "redis: all ring shards are down"

// Script is a script that changes state, so that running it twice is not the
// same as running it once.
type Script struct {
	source string
	sha    string
	lines  lineMap
}

// New makes a script of Lua source. It does no I/O: the server learns the
// source when it first runs.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Run runs the script once and returns its reply as go-redis decodes it, and when
// the command went that it answers. It sends the script again only after a reply
// that proves that nothing was written, until all but a tenth of ctx's time has
// passed, in which that reply can still reach who asked. Where it may have run
// without its reply arriving, the error matches [engine.ErrOutcomeUnknown].
func (s *Script) Run(
	ctx context.Context, rdb redis.UniversalClient, keys []string, args ...any,
) (reply any, sent time.Time, err error) {
	reply, sent, err = s.run(ctx, rdb, keys, args)
	if err == nil || !RefusedForNow(err) {
		return reply, sent, err
	}
	reserve := timeLeft(ctx) / 10
	for pause := firstPause; RefusedForNow(err); pause = min(2*pause, lastPause) {
		if timeLeft(ctx) < reserve+2*pause || clock.Sleep(ctx, pause) != nil {
			break
		}
		reply, sent, err = s.run(ctx, rdb, keys, args)
	}
	return reply, sent, err
}

// Source is the Lua source.
func (s *Script) Source() string { return s.source }

func (s *Script) run(
	ctx context.Context, rdb redis.UniversalClient, keys []string, args []any,
) (reply any, sent time.Time, err error) {
	sent = time.Now()
	reply, err = once(ctx, rdb, command("evalsha", s.sha, keys, args)...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		sent = time.Now()
		reply, err = once(ctx, rdb, command("eval", s.source, keys, args)...)
	}
	return reply, sent, s.lines.locate(err)
}

func command(verb, script string, keys []string, args []any) []any {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, verb, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	return append(words, args...)
}

// once sends one command one time, whatever the client's MaxRetries are;
// redirects within a Cluster are followed.
func once(ctx context.Context, rdb redis.UniversalClient, words ...any) (any, error) {
	cmd := sentOnce{redis.NewCmd(ctx, words...)}
	if err := rdb.Process(ctx, cmd); err != nil && !errors.Is(err, redis.Nil) {
		return nil, Explain(ctx, err)
	}
	return cmd.Val(), nil
}

// sentOnce is a command that go-redis does not repeat when its reply is lost.
type sentOnce struct{ *redis.Cmd }

func (sentOnce) NoRetry() bool { return true }

// RefusedForNow reports whether the reply proves that nothing was written, and
// is over by itself. Redis 6.2 puts text in front of the READONLY of a command in
// a script, which go-redis knows.
func RefusedForNow(err error) bool {
	begins := func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }
	return err != nil && (slices.ContainsFunc(provesNothingWritten, begins) || redis.IsReadOnlyError(err))
}

func timeLeft(ctx context.Context) time.Duration {
	deadline, hasOne := ctx.Deadline()
	if !hasOne {
		return math.MaxInt64
	}
	return time.Until(deadline)
}

// Explain tells the errors after which nothing was sent, or that Redis itself
// answered with, from those that leave the outcome open.
func Explain(ctx context.Context, err error) error {
	var reply redis.Error
	var network *net.OpError
	var distrust *tls.CertificateVerificationError
	switch {
	case errors.As(err, &reply):
		return refused(err)
	case errors.As(err, &network) && network.Op == "dial":
		// Only its text: a dial that times out would match
		// context.DeadlineExceeded, as a refusal does.
		return fmt.Errorf("%w, nothing was sent: %v", engine.ErrUnreachable, err)
	case errors.As(err, &distrust), whereis.IsHTTP(err), whereis.IsPlain(err): // no Redis has read anything
		return fmt.Errorf("%w, nothing was sent: %w", engine.ErrUnreachable, err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed),
		err.Error() == noShard:
		return fmt.Errorf("%w, nothing was sent: %w", engine.ErrUnreachable, err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// A timeout of the client's own, such as that of a TLS handshake. Only
		// its text, for the same reason.
		return fmt.Errorf("%w: %v", engine.ErrOutcomeUnknown, err)
	default:
		return fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, err)
	}
}

// refused is an error that Redis itself answered with. To a client that gave no
// password, and sends a command of more than ten words, Redis does not say so.
func refused(err error) error {
	if strings.Contains(err.Error(), "unauthenticated multibulk") {
		return fmt.Errorf("fairlimit: Redis refused: %w (the client gave no password)", err)
	}
	return fmt.Errorf("fairlimit: Redis refused: %w", err)
}
