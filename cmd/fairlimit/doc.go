// Fairlimit looks at the queues that programs share through package fairlimit,
// steers them, and runs commands when their turn comes.
//
//	go install github.com/fairlimit/fairlimit/cmd/fairlimit@latest
//	fairlimit [-redis URL] [-prefix P] COMMAND ...
//
// # Commands
//
//	ls [-names]                   list the queues
//	look NAME [-watch] [-json]    show the state of a queue
//	look NAME -flows              show the ceilings of its flows as well
//	pause NAME DURATION           let nobody go for a while, on any machine
//	reset NAME [-yes]             forget all turns, and any pause
//	quota NAME [QUOTA...]         show the quotas, or store others
//	quota NAME -forget            forget the stored quotas
//	pause, quota ... -flow ID     do so to one flow of the queue
//	wait NAME -- COMMAND [ARG...] run a command when its turn comes
//	serve [NAME=QUOTAS...]        let callers in any language wait, over HTTP
//	check                         find out what a Redis lacks for limiters
//	completion bash               print a script that completes command lines
//	version                       print the version, as -version does
//	help [COMMAND]                explain a command
//
// Flags may stand before and behind the words of a command. A duration is
// written as in Go, 500ms, 30s or 1h30m, or with sec, min, hour or day. A quota
// is permits and a duration, with or without a burst: 20/1s, 10/min, or 100/2m
// burst 10. A name with spaces or other odd characters is printed as Go quotes
// it.
//
// # Which Redis
//
// Flag -redis says where Redis is, else the environment's FAIRLIMIT_REDIS.
// Without both it is localhost:6379.
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
// into FAIRLIMIT_REDIS_PASSWORD or REDISCLI_AUTH, and that of the Sentinels
// into FAIRLIMIT_SENTINEL_PASSWORD. One in the URL comes before these. None is
// ever printed. If no server is reached, a line after the error says where it
// was looked for. An ACL has to allow what package fairlimit needs, and for ls
// SCAN. If programs use WithPrefix, give the same prefix to -prefix.
//
// # Ls
//
// Each line shows a name, how many permits are granted ahead, how long one more
// would wait, how much longer the queue is paused, and what a caller could take
// at once: calls, and each further unit. These figures are as those of look.
//
// A queue that nobody has used for its longest Per is gone. One that was reset
// stays for an hour or more, as does one whose flows have ceilings, and one
// with stored quotas until these are forgotten. Ls goes through all keys of the
// Redis, a thousand at a time, and then asks for the state of each queue.
// Without any it says so on standard error, with -names nothing.
//
// # Look
//
// Look needs no quota. It shows
//
//   - backlog: how many permits are granted ahead;
//   - next slot: how long one more permit would wait;
//   - available: how many permits a caller could take at once: none while
//     turns are granted ahead, or in a pause;
//   - paused: how much longer the queue is paused;
//   - flows: how many flows use the queue, and their weights, if any;
//   - quotas: the stored quotas, else the windows of the last caller: its guard
//     is included, and a burst is a window of its own;
//   - units: the same of each further unit, how much of its fullest window is
//     used, how much is granted ahead and how much a caller could take at once.
//
// The state knows the windows of the last caller only, and of each unit those
// of the last caller that counted it. All figures are those of a caller with
// these. If callers with different quotas use the queue, look counts them, as
// far as some seven.
//
// With -flows there is a line for each flow that has a ceiling or a pause, or
// had one up to an hour ago. To find them look goes through all keys:
//
//	ceilings  acme: 2 of 2/1s stored, room in 350ms
//	          globex: 1 of 5/1.05s, paused for 30s more
//
// So many permits count now. A quota that is not stored is that of the limiter
// that took the newest turn, with its guard.
//
// A queue that is not in Redis is idle: all of its quota is free. So a misspelt
// name looks idle, too. With -watch, look shows the state every second, until
// SIGINT: on a terminal in place, elsewhere as a line, which ends in
// quotas=different if callers with different quotas use the queue. It goes on
// if Redis cannot be reached. On a terminal there is a picture as well, of what
// was granted and what comes, around now, which is the bar:
//
//	line  ──────●─●─●●●●──|●●●●●●●●●●a●○○○○○○ +38
//	used  ▁▁▁▁▁▁▂▂▃▃▅▆▇▇▇▇|█████████████▇▇▆▅▄ calls
//	used  ▁▁▁▁▁▁▁▁▂▂▂▂▂▂▃▃|▃▃▃▃▃▃▃▃▃▂▂▂▂▂▂▁▁▁ tokens
//
// A letter is the newest turn of a flow. Used is how much of its scarcest quota
// the window that ends there holds, for calls and for each further unit. With
// -json each line is the object that serve answers with for the queue, which
// docs/SERVE.md and its OpenAPI document describe. With -flows it has
//
//	"ceilings":[{"flow":"acme","quotas":["2/1s"],"quotas_stored":true,
//	 "used":2,"next_ms":350,"paused_ms":0}]
//
// # Pause, reset, quota
//
// The commands pause, reset and quota call Pause, Reset, SetQuotas and
// ForgetQuotas of a fairlimit.Queue, whose documentation says what they do.
// After pause and quota the queue is shown as look shows it. Reset and -forget
// show it before, with what they end. Without -yes, reset asks for a y on
// standard input. Stored quotas stay.
//
// The longest of several pauses counts, and only reset ends one. A pause lasts
// at least twice -within. Callers who are due within -within may still go in a
// pause. If programs use WithPauseWithin, give the same duration to -within,
// which is 1s otherwise.
//
// A QUOTA is written as 20/1s, or as 100/2m burst 10. Several of them all hold.
//
// A stored quota takes the place of their own in limiters made WithStoredQuota,
// and in no others. It also holds for serve, and for wait without -quota.
//
// With -flow, pause and quota are for one flow, and show it afterwards as look
// -flows does. Its quota takes the place of that of WithFlowQuota in all
// limiters. It is one quota, and gets the guard of a limiter without WithGuard.
//
// # Wait
//
// Wait is for shell scripts and cron on a Unix. It waits for its turn among all
// callers of the queue, and then becomes the command:
//
//	fairlimit wait tax-office -quota 1/1s -guard 50ms -timeout 5m -- curl ...
//
// Flag -quota may be given several times, and may name several quotas; all of
// them hold. Without it the stored quota holds, and without any wait fails. If
// the command calls the upstream twice, give -n 2. If it uses tokens as well,
// give -amounts tokens=1200; the quotas then name that unit, as in "60/1m;
// tokens 20000/1m". A turn that would come after -timeout is refused at once.
// Without -timeout it waits however long it takes, and says so on standard
// error if that is more than 2s:
//
//	fairlimit: tax-office: my turn comes in 59m58s
//
// SIGINT, SIGTERM or SIGHUP while it waits gives the permits back. Once the
// command runs, signals reach it directly: wait has become the command. A wait
// that ends without its turn stays until Redis has taken back what it granted,
// for up to 2s. After that the error says that a turn may pass unused.
//
// Wait has the exit status of the command, or one of these:
//
//	123    Redis was not reached, or did not answer in time
//	124    the turn would come too late
//	125    any other failure, such as a flag that does not exist
//	126    the command cannot be run
//	127    there is no such command
//	128+n  signal n ended the wait, 130 for SIGINT and 143 for SIGTERM
//
// # Serve
//
// Serve lets callers in any language wait, over HTTP, and shows the queues in a
// browser. docs/SERVE.md has the requests and the answers.
//
//	fairlimit serve tax-office=1/1s 'openai=60/1m; tokens 20000/1m'
//	curl -X POST 'localhost:7070/v1/queues/tax-office/turn?timeout=30s'
//
// Each word is a name and its quotas. If quotas are stored for the name, these
// hold instead. Any other name can be used once a quota is stored for it.
// Without a Redis in reach serve ends at once.
//
// It listens at -listen, 127.0.0.1:7070 or a socket such as
// unix:///run/fairlimit.sock, which only its user may open. An address that
// other machines reach needs -public. With -token-file callers have to send the
// token in the file as Authorization: Bearer. With -admin they may pause, reset
// and set quotas. Once -most-waiting requests wait, others are told 429. Flags
// -guard and -within are as for wait and pause.
//
// SIGINT, SIGTERM or SIGHUP ends it: callers that wait are told 503, and their
// turns are given back, within 5 s. Reservations stand. To end so is no error.
//
// # Check
//
// Check is for a service that may not be all of Redis. It says which Redis it
// asks, and under which name of its own, which it deletes at the end if DEL is
// allowed. There it runs each command and each script that a limiter needs.
// Each line says ok, MISSING, or what goes without it. Below what is missing is
// the answer of the server, and the setting to change. If no limiter would
// work, the exit status is 1.
//
// # Exit statuses
//
//	0  done
//	1  failed: Redis said no, nobody said y, a key holds something else
//	2  the command line cannot be understood
//	3  Redis was not reached, or did not answer
//
// # Completion
//
// It completes commands, flags and the names of queues in bash. For names it
// asks the Redis that the line or the environment names. Put into ~/.bashrc:
//
//	source <(fairlimit completion bash)
package main
