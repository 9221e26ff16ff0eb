#!/bin/sh
# Records random programs of seeds that nobody chose with LangGraph, and plays them:
#
#   fresh.sh [COUNT [FIRST-SEED]]
#
# It prints the seeds; the same arguments draw the same programs again. It needs a Python with
# LangGraph, $STELE_PARITY_PYTHON (default python3).
set -eu
count=${1:-20}
first=${2:-$(($(od -An -N2 -tu2 /dev/urandom) % 3900 + 1000))}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cd -- "$(dirname -- "$0")"
echo "random programs: seeds $first to $((first + count - 1))"
PYTHONDONTWRITEBYTECODE=1 "${STELE_PARITY_PYTHON:-python3}" -W ignore random_trace.py "$out" "$first" "$count" alike
STELE_RANDOM_TRACES=$out go test -count=1 -vet=off -timeout 60m -run 'TestRandomGraphs$' .
