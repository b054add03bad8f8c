package client

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/fairlimit/fairlimit/bench/internal/wire"
)

// hear turns the orders into a channel that is closed when they end.
func hear(orders io.Reader) <-chan wire.Order {
	heard := make(chan wire.Order, 3)
	go func() {
		defer close(heard)
		decoder := json.NewDecoder(orders)
		for {
			var order wire.Order
			if decoder.Decode(&order) != nil {
				return
			}
			heard <- order
		}
	}()
	return heard
}

// speaker writes the news from a goroutine of its own, so that no caller waits for the pipe.
type speaker struct {
	queue chan wire.News
	done  chan error
}

func newSpeaker(w io.Writer) *speaker {
	s := &speaker{queue: make(chan wire.News, 4096), done: make(chan error, 1)}
	go func() { s.done <- s.speak(w) }()
	return s
}

func (s *speaker) say(n wire.News) { s.queue <- n }

// close returns when everything said is written.
func (s *speaker) close() error {
	close(s.queue)
	return <-s.done
}

func (s *speaker) speak(w io.Writer) (failed error) {
	buffer := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffer)
	for news := range s.queue {
		if failed != nil {
			continue // nobody listens any more; drain, so that nobody blocks
		}
		failed = encoder.Encode(news)
		if failed == nil && len(s.queue) == 0 {
			failed = buffer.Flush()
		}
	}
	return failed
}
