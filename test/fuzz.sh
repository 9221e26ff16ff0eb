#!/usr/bin/env bash
# Runs the fuzz targets of the packages in the directories it is given, or of all, for a
# moment each, so that one that breaks is noticed, and one that is added needs no entry
# anywhere. A package is built once for all its targets, and two targets run at a time. A
# target that ran no input does not count, and the one that ran the fewest is named: it may
# be too slow to find anything.
#
#   FUZZTIME   how long each target runs         (default 2s)
#   FUZZCACHE  where the inputs it finds are kept (default: they are not)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"
cd -- "$root"
export work FUZZTIME=${FUZZTIME:-2s}
export FUZZCACHE=${FUZZCACHE:-$work/fuzzed} # what it found before runs first, and can take all the time

# targets prints the directory and the name of each target.
targets() {
	git -c grep.lineNumber=false -c grep.column=false grep --no-color --untracked -oE '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go' | sed -nE 's|^([^:]*)/[^/:]*:func (Fuzz.*)\($|\1 \2|p' | sort
}

# build builds the package in a directory, and prints its targets.
build() {
	(cd -- "$1" && go list . >"$(binary "$1").package" && go test -c -vet=off -fuzz=. -o "$(binary "$1")" . 1>&2)
	grep "^$1 " "$work/targets"
}
binary() { echo "$work/fuzz.${1//\//-}"; }

# one runs the target NAME in DIR. The fuzzer sometimes reports its own deadline as a failure
# of the target, without an input; that, and nothing else, is tried again, twice: of fifty
# runs on a busy machine, one ended so. An input that reaches new code is made smaller in
# 100 tries: without a limit that goes on for a minute, and a target runs a handful of inputs.
one() {
	local dir=$1 name=$2 out try
	out=$(binary "$dir").$name.out
	for try in 1 2 3; do
		if (cd -- "$dir" && "$(binary "$dir")" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 100x -test.fuzzcachedir "$FUZZCACHE/$(<"$(binary "$dir").package")" -test.parallel 1) >"$out" 2>&1; then
			# Without execs, the time was over before all seeds had run.
			echo "fuzzed $dir:$name $(grep -oE '(execs|coverage): [0-9]+' "$out" | tail -n 1 | grep -oE '[0-9]+')"
			return 0
		fi
		if grep -q 'Failing input written' "$out" || ! grep -q 'context deadline exceeded' "$out"; then
			break
		fi
	done
	echo "fuzz target $name in $dir:"
	cat -- "$out"
	return 1
}

targets >"$work/targets"
[ "$#" -eq 0 ] || {
	printf '%s\n' "${@#./}" >"$work/dirs"
	awk 'NR == FNR { chosen[$1]; next } $1 in chosen' "$work/dirs" "$work/targets" >"$work/chosen"
	mv -- "$work/chosen" "$work/targets"
}
[ -s "$work/targets" ] || {
	echo "no fuzz targets in $*"
	[ "$#" -gt 0 ] # none in the whole tree is a mistake
	exit
}
export -f one binary
cut -d ' ' -f 1 "$work/targets" | uniq | while read -r dir; do build "$dir"; done |
	xargs -L 1 -P 2 bash -c 'one "$@"' one >"$work/fuzz.out" || {
	cat -- "$work/fuzz.out"
	exit 1
}
cat -- "$work/fuzz.out"
awk -v want="$(wc -l <"$work/targets")" '
	/^fuzzed / && $3 > 0 {
		n++
		inputs += $3
		if (n == 1 || $3 < fewest) { fewest = $3; where = $2 }
	}
	END {
		printf "%d of %d fuzz targets, %d inputs, the fewest %d of %s\n", n, want, inputs, fewest, where
		exit n != want || n == 0
	}' "$work/fuzz.out"
