#!/usr/bin/env bash
# How many functions, files and packages of this module one Put passes, and one GetTuple
# with the decoding of its value, on an open store.
#
#   test/walk/walk.sh          the numbers
#   test/walk/walk.sh -files   and the files
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
go build -cover -covermode=atomic -coverpkg=github.com/stele-go/stele/... -o "$work/walk" ./test/walk
for what in put get; do
	mkdir "$work/$what"
	GOCOVERDIR=$work "$work/walk" "$what" "$work/$what"
	go tool covdata textfmt -i "$work/$what" -o "$work/$what.txt"
	# file:from,to statements count; test/walk itself does not count
	awk 'NR > 1 && $NF > 0 && !/test\/walk/ { split($1, at, ":"); print at[1] }' "$work/$what.txt" | sort -u >"$work/$what.files"
	go tool covdata func -i "$work/$what" | awk '$NF != "0.0%" && /\.go:/ && !/test\/walk/' >"$work/$what.funcs"
	echo "$what: $(wc -l <"$work/$what.funcs") functions, $(wc -l <"$work/$what.files") files, $(xargs -n1 dirname <"$work/$what.files" | sort -u | wc -l) packages"
	[ "${1:-}" != -files ] || sed 's|github.com/stele-go/stele/|  |' "$work/$what.files"
done
