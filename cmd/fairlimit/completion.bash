# Completes the command line of fairlimit, with the names of queues from Redis.
# Behind --, as there are no candidates, bash completes files.
_fairlimit() {
	local line=${COMP_LINE:0:$COMP_POINT} candidate
	local word=${line##* }
	local cut=${word%"${word##*[:=]}"} # bash takes what is behind : and = for a word
	COMPREPLY=()
	while IFS= read -r candidate; do
		COMPREPLY+=("${candidate#"$cut"}")
	done < <("$1" __complete -- "$line" 2>/dev/null)
}
complete -o default -F _fairlimit fairlimit
