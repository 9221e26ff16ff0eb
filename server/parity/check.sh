#!/usr/bin/env bash
# Section: clients
# Inputs: test/versions.txt server/parity server/studio/testdata/langgraph
#
# LangGraph's own clients, of the versions that are named, use the server, useStream in a
# browser; and the client in Go and that page use LangGraph's own server too.
#
#   STELE_CLIENTS_PYTHON   interpreter with clients/requirements.txt (default: a fresh one)
#   STELE_CLIENTS_NODE     where clients/package.json is installed   (default: a fresh one)
#   STELE_LANGGRAPH_VENV   environment with LangGraph's own server   (default: a fresh one)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"

node_20
chromium_browser
[ -n "${STELE_CLIENTS_PYTHON:-}" ] || {
	environment "$work/clients.venv" -r clients/requirements.txt
	export STELE_CLIENTS_PYTHON=$work/clients.venv/bin/python
}
export STELE_CLIENTS_NODE=${STELE_CLIENTS_NODE:-$work/clients.node}
[ -e "$STELE_CLIENTS_NODE/node_modules" ] || {
	mkdir -p "$STELE_CLIENTS_NODE"
	cp clients/package.json "$STELE_CLIENTS_NODE"
	(cd -- "$STELE_CLIENTS_NODE" && npm install --no-audit --no-fund --loglevel=error)
}
export STELE_LANGGRAPH_VENV=${STELE_LANGGRAPH_VENV:-$work/langgraph.venv}
environment "$STELE_LANGGRAPH_VENV" -r "$root/server/studio/testdata/langgraph/requirements.txt"
STELE_CLIENTS_REQUIRED=1 go test -count=1 -timeout "${TEST_TIMEOUT:-40m}" -v -run TestClients .
