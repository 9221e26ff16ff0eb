#!/bin/sh
# Records the files of this directory anew: record.sh WORKDIR. It needs Python 3.11, Node.js 20
# and the public registries.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$1
mkdir -p "$work"

venv() { # NAME PACKAGE...
	[ -x "$work/$1/bin/python" ] || python3 -m venv "$work/$1"
	dir=$work/$1
	shift
	"$dir/bin/pip" install -q "$@"
}
venv new -c "$here/../../../../test/versions.txt" langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres 'psycopg[binary]==3.3.9'
venv v1 langgraph==0.2.0 langgraph-checkpoint-sqlite==1.0.0
venv v2 langgraph==0.2.60 langgraph-checkpoint-sqlite==2.0.1
mkdir -p "$work/js"
(cd "$work/js" && npm install --no-audit --no-fund @langchain/langgraph@1.7.3 @langchain/core@1.4.0 @langchain/langgraph-checkpoint-sqlite@1.0.4)

# What LangGraph reads is printed from a copy: its saver adds columns to old files.
show() { # NAME
	cp "$here/$1.sqlite" "$work/$1.sqlite"
	"$work/new/bin/python" "$here/record.py" show "$work/$1.sqlite" | gzip -9n >"$here/$1.tuples.gz"
}
rm -f "$here"/*.sqlite "$here"/*.sqlite-*
"$work/new/bin/python" "$here/record.py" graphs "$here/graphs.sqlite"
"$work/v1/bin/python" "$here/record.py" old "$here/v1.sqlite"
"$work/v2/bin/python" "$here/record.py" old "$here/v2.sqlite"
for name in graphs v1 v2; do show "$name"; done
"$work/new/bin/python" "$here/record_items.py" "$here/items.sqlite" >"$here/items.json"
cp "$here/graphs.sqlite" "$work/graphs.sqlite"
"$work/new/bin/python" "$here/record.py" resume "$work/graphs.sqlite" >"$here/graphs.resumed"
cp "$here/record.mjs" "$work/js/"
(cd "$work/js" && node record.mjs "$here/js.sqlite") | gzip -9n >"$here/js.tuples.gz"
