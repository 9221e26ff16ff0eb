#!/usr/bin/env bash
# Section: promtool
# Inputs: ops/prometheus docs/operations.md docs/metrics.md
#
# The alert rules are checked, and shown to fire, by Prometheus's own tool: that of the
# machine, or of Debian's package, unpacked beside the build.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"

tool=$(command -v promtool) || {
	mkdir -p "$work/promtool"
	(cd -- "$work/promtool" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && dpkg-deb -x prometheus_*.deb .) || {
		echo "promtool is missing, and Debian's package prometheus cannot be had"
		exit 1
	}
	tool=$work/promtool/usr/bin/promtool
}
STELE_PROMTOOL=$tool go test -count=1 -v -run 'TestPromtool|TestAlerts|TestDashboard|TestMetricsAreDocumented' .
