#!/usr/bin/env bash
# Section: modules
# Inputs: .
#
# The modules are those that go.mod and go.sum say, and the program can be installed. A
# checkout stays as it is under the commands people use in it: .ci/run compares.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"

# tidy looks at one module, and not at go.work, where the replacements of cmd/stele are.
tidy() {
	grep -q "^module .*/cmd/stele$" go.mod || {
		go mod tidy -diff
		return
	}
	cp go.mod "$work/stele.mod"
	cp go.sum "$work/stele.sum"
	sed -n 's|^replace \(.*\) => \./*\(.*\)|replace \1 => ../../\2|p' ../../go.work >>"$work/stele.mod"
	go mod tidy -diff -modfile="$work/stele.mod"
}

status=0
while read -r dir; do
	(cd -- "$root/$dir" && go mod verify && tidy && go list -m all) || {
		echo "in module $dir"
		status=1
	}
done < <(cd -- "$root" && git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | xargs -r -n1 dirname)
(cd -- "$root" && go doc ./saver) >/dev/null
STELE_INSTALL=1 go test -count=1 -run TestInstall .
exit "$status"
