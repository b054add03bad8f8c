// Fairlimit looks at the queues that programs share through package fairlimit,
// steers them, and runs commands in their turn.
//
//	go install github.com/fairlimit/fairlimit/cmd/fairlimit@latest
//	fairlimit [-redis URL] [-prefix P] COMMAND ...
//
// Without an installation, go run github.com/fairlimit/fairlimit/cmd/fairlimit
// does the same, but has only 0 and 1 as exit statuses.
//
// # Commands
//
//	ls [-names]                   list the queues
//	look NAME [-watch] [-json]    tell how a queue stands
//	pause NAME DURATION           let nobody go for so long, on any machine
//	reset NAME [-yes]             forget what was granted, and any pause
//	quota NAME [QUOTA...]         tell the quotas, or store others
//	quota NAME -forget            forget those that are stored
//	wait NAME -- COMMAND [ARG...] run a command in its turn
//	completion bash               print a script that completes command lines
//	help [COMMAND]                tell what a command does
//
// Ls goes through all keys of the Redis, a thousand at a time, and then asks
// for one queue after the other.
//
// Flags may stand before and behind the words of a command. A duration is one
// of Go, such as 500ms, 30s or 1h30m. A quota is permits and a duration, with a
// burst or without: 20/1s, or 100/2m burst 10. Of a name with spaces or other
// odd letters, the output shows the form that Go quotes.
//
// # Which Redis
//
// Flag -redis says where Redis is, or the environment's FAIRLIMIT_REDIS, or it
// is redis://localhost:6379.
//
//	host:port                                    one server
//	redis://user@host:port/0                     one server, a database
//	rediss://host:port                           over TLS
//	unix:///run/redis.sock                       over a socket
//	redis+sentinel://host:26379,host/MASTER/0    the master, by Sentinel
//	host:port,host:port                          a Cluster
//	redis+cluster://user@host:port               a Cluster, one node is enough
//
// With rediss+sentinel:// and rediss+cluster:// all servers are reached over
// TLS. A query such as ?read_timeout=1s sets options of go-redis; its ParseURL
// lists them. With ?skip_verify=true no certificate is checked.
//
// Everybody on a machine can see the arguments of a process. So put a password
// into FAIRLIMIT_REDIS_PASSWORD, or REDISCLI_AUTH, and that of the Sentinels
// into FAIRLIMIT_SENTINEL_PASSWORD. A password in the URL is taken first. None
// is ever printed.
//
// Flag -prefix is what callers gave to WithPrefix, if they did. An ACL has to
// allow what package fairlimit needs, and SCAN for ls.
//
// # Look
//
// Look needs no quota. It tells
//
//   - backlog: how many permits are granted ahead;
//   - next slot: how long one more permit would wait;
//   - available: how many permits could be had at once;
//   - paused: for how much longer;
//   - flows: how many use the queue, if any do, and their weights;
//   - quotas: those that are stored, else those that the last caller had. The
//     latter are windows: a caller's guard has made them longer, and a burst is
//     one of its own.
//
// A queue that is not in Redis is idle: all of its quota is to be had. Whoever
// misspells a name sees that, too. One that was reset stays for an hour.
//
// With -watch, look tells it every second: on a terminal in place, elsewhere
// one line at a time. While Redis is not reached it says so, and goes on.
// SIGINT ends it, with status 0. With -json each line is an object:
//
//	{"name":"tax-office","idle":false,"backlog":40,"delay_seconds":8.2,
//	 "available":0,"paused_seconds":0,"quotas":["5/1s"],"quotas_stored":true}
//
// Available is null for an idle queue, and quotas are empty if none is known.
// With flows there is "flows":[{"weight":2,"limiters":1}] as well.
//
// # Pause, reset, quota
//
// These do what Pause, Reset, SetQuotas and ForgetQuotas of a fairlimit.Queue
// do; see there. If callers use WithPauseWithin, give the same to -within.
//
// Reset tells what it frees and asks for a y on standard input. With -yes it
// does not ask.
//
// # Wait
//
// Wait is for shell scripts and cron. It waits for its turn among all callers
// of the queue, and then becomes the command:
//
//	fairlimit wait tax-office -quota 1/1s -guard 50ms -timeout 5m -- curl ...
//
// Flag -quota may be given several times, or with several quotas, all of which
// hold. Without it, the stored quota holds; if there is none, wait fails. Flag
// -n takes that many permits in one turn. A turn later than -timeout is refused
// at once; so is one that would come with -timeout 1us if anybody waits.
//
// SIGINT, SIGTERM or SIGHUP while it waits gives the permits back. From its
// turn on, signals reach the command alone, for there is no other process any
// more.
//
// # Exit statuses
//
//	0  done
//	1  failed: Redis said no, nobody said y, a key holds something else
//	2  the command line cannot be understood
//	3  Redis was not reached, or did not answer
//
// Wait has the status of the command. What keeps it from running the command
// has others:
//
//	123    Redis was not reached, or did not answer
//	124    the turn would come too late
//	125    any other failure, such as a flag that does not exist
//	126    the command cannot be run
//	127    there is no such command
//	128+n  signal n ended the wait, 130 for SIGINT and 143 for SIGTERM
//
// # Completion
//
// For bash, put this into ~/.bashrc:
//
//	source <(fairlimit completion bash)
//
// It completes commands, flags, and the names of queues: it asks the Redis that
// the line or the environment names.
package main
