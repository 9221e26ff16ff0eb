#!/bin/sh
# Starts the reference server, offline, and records all scenarios, or those that are named.
# VENV has the packages of requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${VENV:?a virtual environment with requirements.txt}
port=${PORT:-20241}
work=$(mktemp -d)
cp "$here/graphs.py" "$here/langgraph.json" "$work"
cd "$work"
LANGSMITH_TRACING=false LANGGRAPH_CLI_NO_ANALYTICS=1 "$venv/bin/langgraph" dev --no-browser --no-reload --port "$port" --n-jobs-per-worker 4 >log 2>&1 &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
for _ in $(seq 100); do
	"$venv/bin/python" -c "import httpx; httpx.get('http://127.0.0.1:$port/ok').raise_for_status()" 2>/dev/null && break
	sleep 0.3
done
"$venv/bin/python" "$here/record.py" "http://127.0.0.1:$port" "$@"
