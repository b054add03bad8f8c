package run

import (
	"bufio"
	"encoding/json"
	"io"
)

// hear turns the orders into a channel that is closed when they end.
func hear(orders io.Reader) <-chan Order {
	heard := make(chan Order, 3)
	go func() {
		defer close(heard)
		decoder := json.NewDecoder(orders)
		for {
			var order Order
			if decoder.Decode(&order) != nil {
				return
			}
			heard <- order
		}
	}()
	return heard
}

// speaker writes the news from a goroutine of its own, so that no caller waits
// for the pipe.
type speaker struct {
	queue chan News
	last  chan struct{} // closed when nothing more is to be said
	ended chan struct{} // closed when all is written; then failed may be read

	failed error
}

func newSpeaker(w io.Writer) *speaker {
	s := &speaker{queue: make(chan News, 4096), last: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.failed = s.speak(w)
	}()
	return s
}

// say after close is said to nobody: callers may outlive a parent that is gone.
func (s *speaker) say(n News) {
	select {
	case s.queue <- n:
	case <-s.ended:
	}
}

// close returns when everything said before is written.
func (s *speaker) close() error {
	close(s.last)
	<-s.ended
	return s.failed
}

func (s *speaker) speak(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffer)
	for {
		select {
		case news := <-s.queue:
			if err := encoder.Encode(news); err != nil {
				return err
			}
			continue
		default:
		}
		// Nothing is waiting to be said: let the parent have what was.
		if err := buffer.Flush(); err != nil {
			return err
		}
		select {
		case news := <-s.queue:
			if err := encoder.Encode(news); err != nil {
				return err
			}
		case <-s.last:
			if len(s.queue) == 0 {
				return nil
			}
		}
	}
}
