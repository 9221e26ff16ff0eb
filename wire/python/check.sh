#!/bin/sh
# Section: python
# Inputs: test/versions.txt wire/python wire/js cmd/stele wire
#
# Builds the wheel of this machine, installs it into an environment, and runs the tests on
# it: the client's own, LangGraph's conformance suite, LangGraph's own tests. It needs Go,
# Python 3.11, a package index, and Node with npm for one test, and writes nothing into the tree.
#
#   STELE_CLIENT_PYTHON  interpreter for the environment (default: python3.11)
#   STELE_CLIENT_VENV    environment to use and keep; made there if absent
#                        (default: a temporary one)
#   STELE_KILLS          how often processes are killed under load (default: 50)
#   STELE_RESTORES       at how many calls of the conformance suite a server is killed, and
#                        the next one restored from its bucket (default: 40)
#   STELE_CLIENTS_REQUIRED  set: a test fails that lacks Go, Node, openssl, PostgreSQL or
#                        `langgraph dev`; it is skipped otherwise
#   STELE_CONFORMANCE    libs/checkpoint-conformance of a checkout of LangGraph's repository, whose
#                        suite has delta channels too (default: the suite of the package index)
#   STELE_UPSTREAM       arguments of tests/upstream/run.py (default: -n 2); with --restores
#                        LangGraph's own tests run on restored stores, too
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=${STELE_CLIENT_PYTHON:-python3.11}

work=$(mktemp -d)
chmod 711 "$work" # a test runs what is in it as another user
trap 'rm -rf -- "$work"' EXIT INT TERM
export PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR="$work/mypy" RUFF_CACHE_DIR="$work/ruff"
unset STELE_BINARY STELE_TOKEN

"$python" -m venv "$work/fresh"
"$python" "$here/build.py" --out "$work/wheels" host

# A fresh environment with the wheel and LangGraph alone runs the README's program.
"$work/fresh/bin/python" -m pip install --quiet --disable-pip-version-check -c "$here/../../test/versions.txt" "$work"/wheels/*.whl langgraph
sed -n '/^```python$/,/^```$/p' "$here/README.md" | sed '/^```/d' >"$work/ask.py"
(cd -- "$work" && fresh/bin/python ask.py && fresh/bin/python ask.py yes) >"$work/answers"
grep -q 'May I?' "$work/answers"
tail -n 1 "$work/answers" | grep -qx "{'answer': 'yes'}"

venv=${STELE_CLIENT_VENV:-$work/venv}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/tests/requirements.txt"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$work"/wheels/*.whl

[ -z "${STELE_CONFORMANCE:-}" ] ||
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$STELE_CONFORMANCE"

# The client for JavaScript, for the graph that goes through all languages.
if command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
	cp -r "$here/../js" "$work/js"
	(cd -- "$work/js" && npm install --no-audit --no-fund --loglevel=error && node build.mjs --no-binaries)
	export STELE_CLIENT_JS="$work/js"
elif [ -n "${STELE_CLIENTS_REQUIRED:-}" ]; then
	echo "Node 20 and npm are missing, and STELE_CLIENTS_REQUIRED is set"
	exit 1
else
	echo "NOT RUN: the hand-over to JavaScript, which needs Node 20 and npm"
fi

"$venv/bin/ruff" format --check --quiet "$here"
"$venv/bin/ruff" check --quiet "$here"
(cd -- "$work" && "$venv/bin/mypy" --strict -p langgraph.checkpoint.stele -p langgraph.store.stele)

cd -- "$here"
# pytest's last line, and the lines that tests print for the record.
"$venv/bin/python" -m pytest -p no:cacheprovider -q -rPs --durations=5
cd -- "$work"
# shellcheck disable=SC2086 # several arguments
"$venv/bin/python" "$here/tests/upstream/run.py" ${STELE_UPSTREAM:--n 2}
