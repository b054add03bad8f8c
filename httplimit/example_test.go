package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/httplimit"
)

// A client that asks again after a 429. It need not sleep: the Transport has
// paused the limiter, so the next attempt waits for as long as the upstream said,
// and then for its turn.
func Example_retry() {
	redis, err := embedded.Start() // a real program connects to its own
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	answers := []int{http.StatusTooManyRequests, http.StatusOK}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0.01")
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer upstream.Close()

	limiter, err := fairlimit.New(redis.Client(), "weather", fairlimit.PerSecond(100))
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
	defer client.CloseIdleConnections()
	for range 3 {
		resp, err := client.Get(upstream.URL)
		if err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
		if resp.StatusCode != http.StatusTooManyRequests {
			break
		}
	}
	// Output:
	// 429 Too Many Requests
	// 200 OK
}

// What a response says, read without a Transport.
func ExampleRetryAfter() {
	resp := &http.Response{Header: http.Header{
		"Date":        {"Sun, 01 Mar 2026 12:00:00 GMT"},
		"Retry-After": {"Sun, 01 Mar 2026 12:00:30 GMT"},
	}}
	fmt.Println(httplimit.RetryAfter(resp, time.Now()))
	// Output: 30s true
}
