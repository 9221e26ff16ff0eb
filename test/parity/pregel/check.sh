#!/bin/sh
# Makes the traces again with the Python in $STELE_PARITY_PYTHON (default python3),
# which must have the LangGraph of test/versions.txt, and compares them with the committed ones.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out" "$out.random" "$out.rich" "$out.loose" "$out.found"' EXIT
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore trace.py "$out")
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore random_trace.py "$out.random" 1 130)
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore random_trace.py "$out.rich" 1000 40)
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore random_trace.py "$out.loose" 5000 55)
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore random_trace.py "$out.found" found)
(cd "$here" && "${STELE_PARITY_PYTHON:-python3}" -W ignore drawings.py "$out/drawings.txt")
diff -rq "$here/golden" "$out"
gzip -dc "$here/random.jsonl.gz" >"$out/committed"
gzip -dc "$out.random" | cmp - "$out/committed"
gzip -dc "$here/random_rich.jsonl.gz" >"$out/committed"
gzip -dc "$out.rich" | cmp - "$out/committed"
gzip -dc "$here/random_loose.jsonl.gz" >"$out/committed"
gzip -dc "$out.loose" | cmp - "$out/committed"
gzip -dc "$here/random_found.jsonl.gz" >"$out/committed"
gzip -dc "$out.found" | cmp - "$out/committed"
sh "$here/fresh.sh" 20 3100 # of seeds that are certain; make torture draws others
echo "golden traces are current"
