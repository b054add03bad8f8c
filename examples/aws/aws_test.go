package aws_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/aws"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// list lists the zones of Route 53, in the turns of a queue.
func list(t testing.TB, queue *fairlimit.Queue, url string) func(context.Context) error {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := route53.NewFromConfig(aws.Config{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
		BaseEndpoint: aws.String(url),
		HTTPClient:   &http.Client{Transport: transport},
		Retryer:      example.Retryer(queue),
	})
	return func(ctx context.Context) error {
		_, err := c.ListHostedZones(ctx, &route53.ListHostedZonesInput{})
		return err
	}
}

func client(t testing.TB, p *fake.Place) func(context.Context) error {
	return list(t, p.Queue(t), p.URL)
}

func zones(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprint(w, `<ListHostedZonesResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
		`<HostedZones></HostedZones><IsTruncated>false</IsTruncated><MaxItems>100</MaxItems></ListHostedZonesResponse>`)
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	fake.EachAttemptTakesATurn(t, "service", client, zones)
}

func TestARefusedTurnEndsTheCall(t *testing.T) {
	t.Parallel()
	fake.ARefusedTurnEndsTheCall(t, client, zones)
}

func TestAThrottledAttemptPausesEverybody(t *testing.T) {
	t.Parallel()
	p := fake.NewPlace(t, fairlimit.PerHour(10), func(call int, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>`)
			return
		}
		zones(w, r)
	})
	require.NoError(t, client(t, p)(t.Context()))
	calls := p.Calls()
	require.Len(t, calls, 2)
	assert.GreaterOrEqual(t, calls[1].Sub(calls[0]), 2*time.Second, "the SDK alone comes back after a second at most")
}

func TestARequestIsSignedInItsTurn(t *testing.T) {
	t.Parallel()
	signed, left := make(chan time.Time, 2), make(chan time.Time, 2)
	service := fake.Start(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		assert.NoError(t, err)
		signed <- at
		zones(w, r)
	})
	// The second waits for longer than signatures are rounded to.
	queue := fairlimittest.New(t, fairlimit.Every(2*time.Second), fairlimit.WithTrace(&fairlimit.Trace{
		Left: func(int, time.Duration, error) { left <- time.Now() },
	}))
	call := list(t, queue, service.URL)
	for range 2 {
		require.NoError(t, call(t.Context()))
		// A signature knows whole seconds.
		assert.False(t, (<-signed).Before((<-left).Truncate(time.Second)))
	}
}
