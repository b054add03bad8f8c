package redistest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between clients and their servers, on loopback. It passes
// everything on until it is told to break something.
//
// It understands commands and replies, so it can break between them or within
// one. It does not understand TLS, a connection that subscribes, or the replies
// that only protocol 3 has, such as that of INFO. What it is told holds for all
// connections, those that are open and those to come. Any goroutine may call its
// methods. It ends with the test, and leaves neither connections nor goroutines
// behind.
//
//	p := redistest.StartProxy(t)
//
//	// One server, or every server that a client learns of:
//	rdb := p.Client(&redis.Options{Addr: server.Addr()})
//	rdb := redis.NewClusterClient(&redis.ClusterOptions{..., Dialer: p.Dial})
//	p.Lose(1, "evalsha", redistest.Unanswered)
type Proxy struct {
	t testing.TB

	mu     sync.Mutex
	ways   map[string]net.Listener // by the server that they lead to
	links  map[*link]bool
	ended  bool
	delay  func() time.Duration // nil for none
	frozen chan struct{}        // closed when it thaws; nil if it is not frozen
	losing []*loss
	lost   int
	seen   func(words []string)

	all sync.WaitGroup
}

// Loss is what happens to a command whose reply is lost.
type Loss int

const (
	// Unsent cuts the connection before the server has the command.
	Unsent Loss = iota

	// Unanswered has the server run it, and the reply disappears. The
	// connection stays open, and later replies arrive.
	Unanswered

	// Cut has the server run it, and cuts the connection in place of the reply.
	Cut

	// CutWithin has the server run it, and cuts the connection within the
	// reply.
	CutWithin
)

func (l Loss) String() string {
	return [...]string{"unsent", "unanswered", "cut", "cut within"}[l]
}

// loss is an order to lose replies.
type loss struct {
	left int
	word string
	how  Loss
}

// StartProxy starts a proxy for this test.
func StartProxy(t testing.TB) *Proxy {
	p := NewProxy()
	p.t = t
	t.Cleanup(p.Close)
	return p
}

// NewProxy starts a proxy outside of any test: [Proxy.Client] and [Proxy.Addr]
// cannot be called. The caller closes it.
func NewProxy() *Proxy {
	return &Proxy{ways: map[string]net.Listener{}, links: map[*link]bool{}}
}

// Client returns a client that reaches its server through the proxy; it is
// closed when the test ends.
//
// A go-redis client that is closed while a call is under way takes that call's
// timeout away, and waits for the call. So this client's calls are ended before
// it is closed. A test that makes a client of its own has to do the same.
func (p *Proxy) Client(o *redis.Options) *redis.Client {
	o.Dialer = p.Dial
	rdb := redis.NewClient(o)
	p.t.Cleanup(func() {
		p.Heal()
		p.Cut()
		Close(rdb)
	})
	return rdb
}

// Addr is the address at which clients reach the server through the proxy. The
// server need not be there yet.
func (p *Proxy) Addr(server string) string {
	p.t.Helper()
	addr, err := p.Way(server)
	if err != nil {
		p.t.Fatal(err)
	}
	return addr
}

// Dial is the Dialer of a client that shall reach all of its servers through
// the proxy, whatever their addresses are.
func (p *Proxy) Dial(ctx context.Context, network, server string) (net.Conn, error) {
	addr, err := p.Way(server)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Delay makes every reply arrive later by d.
func (p *Proxy) Delay(d time.Duration) {
	p.DelayBy(func() time.Duration { return d })
}

// DelayBy makes each reply arrive later by what draw says. Any goroutine may
// call draw.
func (p *Proxy) DelayBy(draw func() time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = draw
}

// Freeze stops commands and replies. Connections are still taken. When the
// proxy is healed, what was held up goes on its way, even if its sender has
// gone.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Lose loses the replies to the next n commands whose first word is the given
// one, in any case; the empty word is any command.
func (p *Proxy) Lose(n int, word string, how Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = append(p.losing, &loss{n, word, how})
}

// Lost is how many replies have been lost.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Heal ends [Proxy.Delay], [Proxy.Freeze] and [Proxy.Lose]. What was cut stays
// cut.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.losing = nil, nil
	p.thaw()
}

// Cut breaks all connections, as when a cable is pulled and the peer has
// noticed. New ones are taken.
func (p *Proxy) Cut() {
	for _, l := range p.open() {
		l.cut()
	}
}

// HalfClose closes the open connections in one direction: clients hear nothing
// more, and what they say still reaches the server.
func (p *Proxy) HalfClose() {
	for _, l := range p.open() {
		_ = l.client.(*net.TCPConn).CloseWrite()
	}
}

// Watch calls see with the words of every command from now on, before the
// server gets them, one at a time. It must not call the proxy.
func (p *Proxy) Watch(see func(words []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = see
}

func (p *Proxy) thaw() {
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.ended = true
	p.thaw()
	for _, way := range p.ways {
		_ = way.Close()
	}
	p.mu.Unlock()
	p.Cut()
	p.all.Wait()
}

// Way returns the address that leads to the server, and opens it if there is
// none.
func (p *Proxy) Way(server string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return "", net.ErrClosed
	}
	if way := p.ways[server]; way != nil {
		return way.Addr().String(), nil
	}
	way, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.ways[server] = way
	p.all.Go(func() { p.accept(way, server) })
	return way.Addr().String(), nil
}

func (p *Proxy) accept(way net.Listener, server string) {
	for {
		client, err := way.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, client: client, gone: make(chan struct{})}
		if !p.keep(l) {
			_ = client.Close()
			return
		}
		p.all.Go(func() { l.run(server) })
	}
}

// keep makes the link one of those that [Proxy.Cut] and the end reach.
func (p *Proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.links[l] = true
	}
	return !p.ended
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*link, 0, len(p.links))
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

// fate is what is to become of a command, and of its reply.
func (p *Proxy) fate(words []string) *loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen != nil {
		p.seen(words)
	}
	for _, l := range p.losing {
		if l.left > 0 && (l.word == "" || strings.EqualFold(l.word, words[0])) {
			l.left--
			p.lost++
			return l
		}
	}
	return nil
}
