// Package lag stands between clients and a server and holds up what the server
// answers.
package run

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Proxy passes bytes on: to the server at once, from the server later.
type Proxy struct {
	Addr string

	listener net.Listener
	dial     func() (net.Conn, error)
	draw     func(*rand.Rand) time.Duration

	mu     sync.Mutex
	seeds  *rand.Rand
	open   map[net.Conn]bool
	closed bool
	all    sync.WaitGroup
}

// Open listens on loopback for clients of the server that dial reaches. Each of
// the server's answers is held up for as long as draw says.
func Open(dial func() (net.Conn, error), draw func(*rand.Rand) time.Duration, seed uint64) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: listener.Addr().String(), listener: listener, dial: dial, draw: draw,
		seeds: rand.New(rand.NewPCG(seed, 0)), open: map[net.Conn]bool{},
	}
	p.all.Go(p.accept)
	return p, nil
}

// Close ends all connections; when it returns, nothing of the proxy is left.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		p.mu.Lock()
		rng := rand.New(rand.NewPCG(p.seeds.Uint64(), 0))
		p.mu.Unlock()
		p.all.Go(func() {
			_, _ = io.Copy(server, client)
			p.drop(client, server)
		})
		p.all.Go(func() {
			p.holdUp(client, server, rng)
			p.drop(client, server)
		})
	}
}

// holdUp passes on one answer after the other. A client that asks one thing at
// a time is never held up for two answers at once.
func (p *Proxy) holdUp(client io.Writer, server io.Reader, rng *rand.Rand) {
	answer := make([]byte, 64<<10)
	for {
		n, err := server.Read(answer)
		if n > 0 {
			time.Sleep(p.draw(rng))
			if _, err := client.Write(answer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
}
