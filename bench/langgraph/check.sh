#!/bin/sh
# Records again what LangGraph does in one run of each graph, with the Python in
# $STELE_PARITY_PYTHON (default python3), which gets the packages of
# requirements.txt, and compares it with the committed record.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$(mktemp)
trap 'rm -f -- "$out"' EXIT INT TERM
python=${STELE_PARITY_PYTHON:-python3}
"$python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
export PYTHONDONTWRITEBYTECODE=1
cd -- "$here/../.."
go run ./bench/langgraph -work -python "$python" >"$out"
diff -u "$here/testdata/work.json" "$out"
echo "the record of LangGraph's work is current"
