// Package embedded runs a small Redis inside this process, for development,
// tests and benchmarks where none is installed.
//
// It is not for production. It speaks enough of the protocol for this library.
// It is a single node without replication, and much slower than Redis. Its data
// ends with the process, and nothing is written to disk. No figure measured on
// it says anything about Redis.
package embedded

import (
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is a running server. Other processes on this machine can connect to it
// as well.
type Server struct {
	addr   string
	client *redis.Client
	close  func()
}

// Start starts an empty server on a free TCP port of 127.0.0.1. Its keys expire
// as time passes. The caller ends it with [Server.Close]. Inside a
// testing/synctest bubble it returns [ErrBubble].
func Start() (*Server, error) {
	if inBubble() {
		return nil, ErrBubble
	}
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("fairlimit: start an embedded Redis: %w", err)
	}
	mini.ClockTTL(true)
	s := &Server{addr: mini.Addr(), client: redis.NewClient(&redis.Options{Addr: mini.Addr()})}
	s.close = sync.OnceFunc(func() {
		_ = s.client.Close()
		mini.Close()
	})
	return s, nil
}

// Client returns a client that is connected over TCP; it is the same one each
// time. It belongs to the server, which closes it in [Server.Close].
func (s *Server) Client() *redis.Client { return s.client }

// Addr returns the server's host:port, for further clients.
func (s *Server) Addr() string { return s.addr }

// Close ends the server, all connections to it, and the client that
// [Server.Client] returned. What the server held is lost. When Close returns,
// the port is free and no goroutine of the server is left. Closing again does
// nothing.
func (s *Server) Close() { s.close() }
