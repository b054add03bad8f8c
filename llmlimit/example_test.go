package llmlimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/llmlimit"
)

// A model that allows ten requests and a thousand tokens a minute. The second
// question fits the requests, but not the tokens: it would have to wait for longer
// than its client does. An SDK is given the client, as in WithHTTPClient.
func Example() {
	redis, err := embedded.Start() // a real program connects to its own
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	model := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer model.Close()

	queue, err := fairlimit.NewQueue(redis.Client(), "gpt", fairlimit.PerMinute(10),
		fairlimit.WithUnit(llmlimit.Tokens, fairlimit.PerMinute(1000)))
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: llmlimit.New(queue, llmlimit.OpenAI), Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for range 2 {
		question := strings.NewReader(`{"model": "gpt", "max_completion_tokens": 600}`)
		resp, err := client.Post(model.URL+"/v1/chat/completions", "application/json", question)
		if err != nil {
			fmt.Println("not sent")
			continue
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// not sent
}
