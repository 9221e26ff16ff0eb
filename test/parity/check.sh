#!/bin/sh
# Section: parity
# Inputs: test/versions.txt message/testdata agent
# Inputs: bench/langgraph/check.sh bench/langgraph/main.go bench/langgraph/side.go
# Inputs: bench/langgraph/program.py bench/langgraph/requirements.txt bench/langgraph/testdata
#
# Records every fixture again with the pinned LangGraph and fails if the result
# differs from the committed one, and those of the directories below and of bench/langgraph.
# Needs a package index and Python 3.11. Only LangGraph runs.
#
#   STELE_PARITY_PYTHON  interpreter for the environment (default: python3.11)
#   STELE_PARITY_VENV    environment to use and keep; made there if absent
#                        (default: a temporary one)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=${STELE_PARITY_PYTHON:-python3.11}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT INT TERM

venv=${STELE_PARITY_VENV:-$work/venv}
if [ ! -x "$venv/bin/python" ]; then
	"$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
	--requirement "$here/requirements.txt"

export PYTHONDONTWRITEBYTECODE=1
cd -- "$here"
"$venv/bin/python" record.py --out "$work/first"
# A recording that differs from itself would make every comparison worthless.
"$venv/bin/python" record.py --out "$work/second" >/dev/null
"$venv/bin/python" -m recorder.compare "$work/first" "$work/second" || {
	echo 'two recordings in a row differ: a source of chance is not injected' >&2
	exit 1
}
"$venv/bin/python" -m recorder.compare "$here/fixtures" "$work/first"

# The same for packages message and tool, whose recorders need nothing else.
tree=$here/../..
PYTHONHASHSEED=0 "$venv/bin/python" -W ignore "$tree/message/testdata/record.py" "$work"
"$venv/bin/python" -W ignore "$tree/agent/tool/testdata/record.py" "$work" >/dev/null
gzip -dc "$work/random.json.gz" >"$work/random.json"
gzip -dc "$tree/message/testdata/random.json.gz" | cmp - "$work/random.json"
cmp "$tree/message/testdata/python.json" "$work/python.json"
cmp "$tree/agent/tool/testdata/node.json" "$work/node.json"

# The same for package agent. When a task fails, LangGraph stops its threads while others store
# what they wrote, so that now and then a recording lacks one: what differs is recorded again.
for try in 1 2 3; do
	"$venv/bin/python" -W ignore "$tree/agent/testdata/record.py" "$work" >/dev/null
	gzip -dc "$work/agent.json.gz" >"$work/agent.json"
	if gzip -dc "$tree/agent/testdata/agent.json.gz" | cmp - "$work/agent.json"; then
		break
	fi
	[ "$try" -lt 3 ]
done

# Those of other packages, with the same environment.
for check in "$here"/*/check.sh "$tree/bench/langgraph/check.sh"; do
	STELE_PARITY_PYTHON=$venv/bin/python sh "$check"
done
