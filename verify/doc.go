// Package verify runs random histories of engine fair beside its definition,
// internal/model, and looks at what the engine promises. rapid shrinks a history
// that fails to a few calls.
//
//	go test ./...                                     # 20 histories of each kind
//	go test -rapid.checks=800 -timeout=30m ./...      # five minutes
//	go test -run TestStorm -rapid.failfile=... ./...  # the one that failed, again
//
// Time is virtual on miniredis, and keys expire by it. Storms go through the
// front, in a bubble of testing/synctest. [TestSlotsOnRedis] needs a redis-server,
// and is skipped without one.
package verify
