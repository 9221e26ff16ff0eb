#!/usr/bin/env bash
# Lines of Go code of the main module by package, without tests, comments and blank lines.
# Packages below test/, bench/ and examples/ do not count, nor do other modules.
#
#   test/walk/lines.sh          the sum
#   test/walk/lines.sh -by      and each package
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
git ls-files '*.go' | grep -vE '_test\.go$|^(test|bench|examples|cmd|ops|postgres|server|agent/providers)/' | xargs awk -v by="${1:-}" '
	/^[ \t]*$/ || /^[ \t]*\/\// { next }
	{ d = FILENAME; sub(/\/[^\/]*$/, "", d); n[d]++; sum++ }
	END { if (by == "-by") for (d in n) printf "%7d %s\n", n[d], d; printf "%7d lines of code\n", sum }'
