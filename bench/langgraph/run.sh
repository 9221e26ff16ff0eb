#!/bin/sh
# Compares the engine with LangGraph; see main.go. Arguments are its flags. Needs
# a package index and Python 3.11.
#
#   STELE_BENCH_PYTHON  interpreter for the environment (default: python3.11)
#   STELE_BENCH_VENV    environment to use and keep; made there if absent
#                       (default: a temporary one)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT INT TERM

venv=${STELE_BENCH_VENV:-$work/venv}
if [ ! -x "$venv/bin/python" ]; then
	"${STELE_BENCH_PYTHON:-python3.11}" -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"

export PYTHONDONTWRITEBYTECODE=1
cd -- "$here/../.."
go build -o "$work/compare" ./bench/langgraph
"$work/compare" -python "$venv/bin/python" "$@"
