#!/usr/bin/env bash
# Section: studio
# Inputs: test/versions.txt server/studio
#
# The page is what its sources build; and it does in a browser what it says, on LangGraph's
# own server too, which STELE_LANGGRAPH_VENV has (default: a fresh environment).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"

chromium_browser
cp -r web "$work/studio.web"
(cd -- "$work/studio.web" && rm -rf node_modules && npm ci --no-audit --no-fund && npx tsc --noEmit && npx vite build --outDir "$work/studio.dist" --emptyOutDir)
diff -r dist "$work/studio.dist" || {
	echo "dist is not what web builds: run npm ci && npm run build there"
	exit 1
}
export STELE_LANGGRAPH_VENV=${STELE_LANGGRAPH_VENV:-$work/langgraph.venv}
environment "$STELE_LANGGRAPH_VENV" -r testdata/langgraph/requirements.txt
STELE_REQUIRE_BROWSER=1 STELE_AXE=$work/studio.web/node_modules/axe-core/axe.min.js go test -count=1 -vet=off -timeout "${TEST_TIMEOUT:-40m}" .
