package aws_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/aws"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/httplimit"
)

const zones = `<ListHostedZonesResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/">` +
	`<HostedZones></HostedZones><IsTruncated>false</IsTruncated><MaxItems>100</MaxItems></ListHostedZonesResponse>`

// route53Of throttles, or fails, as often as the test says.
func route53Of(refusals, status int, code string) func(int, http.ResponseWriter, *http.Request) {
	return func(call int, w http.ResponseWriter, _ *http.Request) {
		if call <= refusals {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Code>%s</Code></Error></ErrorResponse>`, code)
			return
		}
		_, _ = fmt.Fprint(w, zones)
	}
}

func client(t *testing.T, service *fake.Service, config aws.Config) *route53.Client {
	t.Helper()
	config.Region = "us-east-1"
	config.Credentials = credentials.NewStaticCredentialsProvider("id", "secret", "")
	config.BaseEndpoint = aws.String(service.URL)
	if config.HTTPClient == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		config.HTTPClient = &http.Client{Transport: transport}
	}
	return route53.NewFromConfig(config)
}

func list(ctx context.Context, c *route53.Client) error {
	_, err := c.ListHostedZones(ctx, &route53.ListHostedZonesInput{})
	return err
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, route53Of(2, http.StatusInternalServerError, "InternalError"))
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	require.NoError(t, list(t.Context(), client(t, service, aws.Config{Retryer: example.Retryer(queue)})))
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-3, fake.Status(t, queue).Available)
}

func TestAThrottledAttemptPausesEverybody(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, route53Of(1, http.StatusBadRequest, "Throttling"))
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	require.NoError(t, list(t.Context(), client(t, service, aws.Config{Retryer: example.Retryer(queue)})))
	calls := service.Calls()
	require.Len(t, calls, 2)
	assert.GreaterOrEqual(t, calls[1].Sub(calls[0]), 2*time.Second, "the SDK alone comes back after a second at most")
}

func TestARefusedTurnEndsTheCall(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, route53Of(0, 0, ""))
	var refused atomic.Int64
	queue := fairlimittest.New(t, fairlimit.PerHour(1), counting(&refused))
	c := client(t, service, aws.Config{Retryer: example.Retryer(queue)})
	require.NoError(t, list(t.Context(), c))
	require.ErrorAs(t, listSoon(t, c), new(*fairlimit.RefusedError))
	assert.Len(t, service.Calls(), 1)
	assert.EqualValues(t, 1, refused.Load())
}

func TestARequestIsSignedInItsTurn(t *testing.T) {
	t.Parallel()
	service, signed := signatures(t)
	queue, _, left := watched(t)
	c := client(t, service, aws.Config{Retryer: example.Retryer(queue)})
	for range 2 {
		require.NoError(t, list(t.Context(), c))
		// A signature knows whole seconds.
		assert.False(t, (<-signed).Before((<-left).Truncate(time.Second)))
	}
}

// These are why the example stands where it does.

func TestARateLimiterIsNotAskedForFirstAttempts(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, route53Of(0, 0, ""))
	var asked atomic.Int64
	require.NoError(t, list(t.Context(), client(t, service, aws.Config{Retryer: func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter = rateLimiter{&asked} })
	}})))
	assert.Len(t, service.Calls(), 1)
	assert.Zero(t, asked.Load())
}

func TestBelowATransportARequestIsSignedWhenItLinesUp(t *testing.T) {
	t.Parallel()
	service, signed := signatures(t)
	queue, entered, _ := watched(t)
	c := client(t, service, aws.Config{HTTPClient: limited(t, queue)})
	for range 2 {
		require.NoError(t, list(t.Context(), c))
		assert.False(t, (<-signed).After(<-entered), "the signature grows old in the queue")
	}
}

func TestBelowATransportARefusedTurnIsAskedForAgain(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, route53Of(0, 0, ""))
	var refused atomic.Int64
	queue := fairlimittest.New(t, fairlimit.PerHour(1), counting(&refused))
	c := client(t, service, aws.Config{HTTPClient: limited(t, queue)})
	require.NoError(t, list(t.Context(), c))
	require.Error(t, listSoon(t, c))
	assert.Len(t, service.Calls(), 1)
	assert.EqualValues(t, 3, refused.Load())
}

// listSoon has a deadline before the next turn of a quota of an hour.
func listSoon(t *testing.T, c *route53.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return list(ctx, c)
}

func counting(refused *atomic.Int64) fairlimit.Option {
	return fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { refused.Add(1) }})
}

func limited(t *testing.T, queue *fairlimit.Queue) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: &httplimit.Transport{Limiter: queue, Base: transport}}
}

// signatures tells when the requests that reach the service were signed.
func signatures(t *testing.T) (*fake.Service, <-chan time.Time) {
	t.Helper()
	signed := make(chan time.Time, 10)
	return fake.Start(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		assert.NoError(t, err)
		signed <- at
		_, _ = fmt.Fprint(w, zones)
	}), signed
}

// watched is a queue that tells when its callers begin to wait and when they go.
// The second waits for longer than signatures are rounded to.
func watched(t *testing.T) (queue *fairlimit.Queue, entered, left <-chan time.Time) {
	t.Helper()
	in, out := make(chan time.Time, 10), make(chan time.Time, 10)
	return fairlimittest.New(t, fairlimit.Every(2*time.Second), fairlimit.WithTrace(&fairlimit.Trace{
		Entered: func(int) { in <- time.Now() },
		Left:    func(int, time.Duration, error) { out <- time.Now() },
	})), in, out
}

type rateLimiter struct{ asked *atomic.Int64 }

func (l rateLimiter) GetToken(ctx context.Context, cost uint) (func() error, error) {
	l.asked.Add(1)
	return ratelimit.None.GetToken(ctx, cost)
}

func (l rateLimiter) AddTokens(n uint) error { return ratelimit.None.AddTokens(n) }
