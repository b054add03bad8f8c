package redistest

import "github.com/redis/go-redis/v9"

// Process is a [Server] outside of any test: what fails is returned.
type Process struct{ server *Server }

// Start starts one, as [StartServer] does. The caller stops it.
func Start(args ...string) (Process, error) {
	s, err := launch(alone(args...))
	return Process{s}, err
}

// Stop ends the server and removes what it wrote.
func (p Process) Stop() { p.server.stop() }

// Addr is [Server.Addr].
func (p Process) Addr() string { return p.server.Addr() }

// Client is [Server.Client].
func (p Process) Client() *redis.Client { return p.server.Client() }

// Kill is [Server.Kill].
func (p Process) Kill() error { return p.server.signal("KILL") }

// Restart is [Server.Restart].
func (p Process) Restart() error { return p.server.restart() }

// Pause is [Server.Pause].
func (p Process) Pause() error { return p.server.signal("STOP") }

// Resume is [Server.Resume].
func (p Process) Resume() error { return p.server.signal("CONT") }
