# Keeps one redis-server for a test binary.
#
# $1      directory of the server, removed at the end
# $2 ...  command that starts the server
#
# Each line of standard input is an order: "start" or the name of a signal. Each
# is answered with a line: the process id of the server, or nothing when it is
# gone, as after KILL. When standard input ends, which it does when the test
# binary is no more, the server is killed.

# Whatever this process is told, the server is to go and the directory with it.
trap '' HUP INT TERM

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
