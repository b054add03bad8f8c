# Keeps one redis-server for a test binary.
#
# $1      directory of the server, removed at the end
# $2 ...  command that starts the server
#
# Each line of standard input is an order: "start" or the name of a signal. Each is answered with a line: the process id of the server, or nothing
# when it is gone, as after KILL. When standard input ends, which it does when the test binary is no more, the server is killed.

trap '' HUP INT TERM # the server must be gone and the directory removed, whatever this process is told

dir=$1
shift
pid=

while read -r order; do
	case $order in
	start)
		"$@" </dev/null >>"$dir/output" 2>&1 &
		pid=$!
		;;
	KILL)
		[ -z "$pid" ] || kill -KILL "$pid"
		wait
		pid=
		;;
	*)
		[ -z "$pid" ] || kill -"$order" "$pid"
		;;
	esac
	echo "$pid"
done

[ -z "$pid" ] || kill -KILL "$pid"
wait
cd / && rm -rf "$dir"
