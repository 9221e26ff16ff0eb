#!/usr/bin/env bash
# Records again, in place, what real LangGraph and LangChain of test/versions.txt do, and prints
# what differs from the commit: record.sh WORKDIR. WORKDIR keeps the environments. It needs
# Python 3.11, Node 20, Go and the public registries, and takes some minutes.
set -euo pipefail
mkdir -p "$1"
STELE_CI_WORK=$(cd -- "$1" && pwd)
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. .ci/machine.sh
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 PYTHONWARNINGS=ignore

environment "$work/parity" -r test/parity/requirements.txt -r bench/langgraph/requirements.txt
python=$work/parity/bin/python
"$python" test/parity/record.py
"$python" message/testdata/record.py
"$python" agent/tool/testdata/record.py
"$python" agent/testdata/record.py
"$python" test/parity/store/record.py >test/parity/store/golden.jsonl
"$python" wire/js/test/suite/record_python.py >wire/js/test/suite/python.jsonl
(
	cd -- test/parity/pregel
	"$python" trace.py
	"$python" drawings.py golden/drawings.txt
	"$python" random_trace.py random.jsonl.gz 1 130
	"$python" random_trace.py random_rich.jsonl.gz 1000 40
	"$python" random_trace.py random_loose.jsonl.gz 5000 55
	"$python" random_trace.py random_found.jsonl.gz found
)
go run ./bench/langgraph -work -python "$python" >"$work/work.json"
mv -- "$work/work.json" bench/langgraph/testdata/work.json

# These have environments of their own: LangGraph's store counts otherwise where numpy is.
environment "$work/serde" -r test/parity/requirements.txt numpy pycryptodome
"$work/serde/bin/python" saver/serde/testdata/gen.py >saver/serde/testdata/langgraph.json
environment "$work/providers" -c test/versions.txt langchain-openai langchain-anthropic langchain-google-genai
"$work/providers/bin/python" agent/model/testdata/record.py
environment "$work/reference" -r server/parity/reference/requirements.txt
VENV=$work/reference sh server/parity/reference/record.sh

# Ids, times and the order of tasks that race differ by chance.
echo '*.gz diff=gz' >"$work/attributes"
git -c core.attributesFile="$work/attributes" -c diff.gz.textconv='gzip -dc' diff --stat -p
