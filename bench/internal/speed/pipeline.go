package speed

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// pipelining are clients that hold commands back until a pipeline is full. Each
// needs as many callers as a pipeline holds, and they have to call equally
// often. Then every pipeline has one command of each caller.
func (b *bed) pipelining() (lanes [pipelines]*redis.Client) {
	for i := range lanes {
		lanes[i] = redis.NewClient(b.rdb.Options()) // it never dials
		lanes[i].AddHook(&gatherer{rdb: b.rdb})
	}
	return lanes
}

// gatherer sends commands in pipelines of equal size.
type gatherer struct {
	rdb *redis.Client

	mu   sync.Mutex
	open *gathered
}

var _ redis.Hook = (*gatherer)(nil)

func (g *gatherer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gatherer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gatherer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p, full := g.join(cmd)
		if full {
			p.send(ctx, g.rdb)
		}
		select {
		case <-p.done:
			return cmd.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gathered is a pipeline that is being filled.
type gathered struct {
	commands []redis.Cmder
	done     chan struct{} // closed once all are answered
}

// join adds the command to the open pipeline, which it may fill.
func (g *gatherer) join(cmd redis.Cmder) (p *gathered, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = &gathered{done: make(chan struct{})}
	}
	p = g.open
	p.commands = append(p.commands, cmd)
	if len(p.commands) < pipelined {
		return p, false
	}
	g.open = nil
	return p, true
}

// send leaves each command with its own answer or error.
func (p *gathered) send(ctx context.Context, rdb *redis.Client) {
	defer close(p.done)
	pipe := rdb.Pipeline()
	for _, cmd := range p.commands {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
}
