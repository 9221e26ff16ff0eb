#!/bin/sh
# Makes the recording again with the Python in $STELE_PARITY_PYTHON (default
# python3), which must have the LangGraph of test/versions.txt, and compares it with
# the committed one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"${STELE_PARITY_PYTHON:-python3}" -W ignore "$here/record.py" >"$out"
cmp "$here/golden.jsonl" "$out"
echo "the recording of the store is current"
