#!/usr/bin/env bash
# Section: examples
# Inputs: examples/crash
#
# The first command of the README must say what the README says it says.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
out=$(go run . 2>&1) || {
	tail -n 60 <<<"$out"
	exit 1
}
tail -n 1 <<<"$out"
tail -n 1 <<<"$out" | grep -Eq '^recovered [0-9]+ checkpoints, [0-9]+ writes after [0-9]+ kills, 0 differences$'
