#!/usr/bin/env python3
"""Runs LangGraph's own tests with stele in the place of SQLite.

    python wire/python/tests/upstream/run.py [--quick] [-n WORKERS] [--restores N]

The tests come from the source distributions of the versions that are installed; pip
downloads them. --quick runs, of those of LangGraph itself, the ones of interrupts, time
travel and subgraphs alone. --restores kills the server at every N calls, and the next
one begins with what the bucket of the last one has. What the tests need beside
langgraph-checkpoint-stele:

    pip install hatchling langgraph langgraph-checkpoint-sqlite pycryptodome pytest \\
        pytest-asyncio pytest-mock pytest-xdist syrupy redis psycopg[binary] \\
        psycopg-pool langgraph-checkpoint-postgres langgraph-checkpoint-conformance
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Tests that ask for something else than LangGraph's contract, with the reason.
DESELECTED = {
    "test_store.py::test_nonnull_migrations": "SQLite's tables",
    "test_store.py::test_list_namespaces_prefix_uses_indexable_condition": "SQL",
    "test_store.py::test_sql_injection_vulnerability": (
        "a filter key with quotes is an error of SQLite's; here it finds nothing"
    ),
    "test_store.py::test_numeric_filter_safety": (
        "SQLite finds nothing by NaN; here it is a ValueError"
    ),
    "test_store.py::test_filter_keys_with_hyphens_and_digits": (
        "paths with points in filters, which InMemoryStore has not either"
    ),
    "test_sqlite.py::TestSqliteSaver::test_informative_async_errors": (
        "SqliteSaver refuses asyncio; SteleSaver has it"
    ),
    "test_sqlite.py::TestSqliteSaver::"
    "test_checkpoint_search_sql_injection_prevention": (
        "the same ValueError in other words"
    ),
    "test_get_delta_channel_history.py::"
    "test_seed_present_when_snapshot_in_ancestor_sync": (
        "SQLite stores values that new_versions does not name; InMemorySaver and "
        "PostgresSaver do not either"
    ),
}

SQLITE = (
    "test_store.py",
    "test_async_store.py",
    "test_sqlite.py",
    "test_aiosqlite.py",
    "test_get_delta_channel_history.py",
)

QUICK = (
    "test_interruption.py",
    "test_interrupt_state.py",
    "test_time_travel.py",
    "test_time_travel_async.py",
    "test_subgraph_persistence.py",
    "test_subgraph_persistence_async.py",
)


def source(distribution: str, into: Path) -> Path:
    """The unpacked source distribution of what is installed."""
    version = importlib.metadata.version(distribution)
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "-q",
            "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
            "--dest", str(into), f"{distribution}=={version}",
        ],
        check=True,
    )  # fmt: skip
    (archive,) = into.glob(f"{distribution.replace('-', '_')}-{version}.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into / archive.name.removesuffix(".tar.gz")


def run(where: Path, workers: int, *args: str) -> tuple[int, str]:
    """Runs tests; the exit code and what they print."""
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
        "-p", "stele_in_place", "-o", "addopts=", "-o", "asyncio_mode=auto", "-q",
        *(["-n", str(workers)] if workers > 1 else []), *args,
    ]  # fmt: skip
    path = os.pathsep.join(
        [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, "NO_DOCKER": "true", "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def pytest(where: Path, workers: int, *args: str) -> str:
    """Runs a suite; its last line.

    Some of LangGraph's tests compare times to tenths of a second, and fail on a busy
    machine. What fails is run once more, alone.
    """
    code, said = run(where, workers, *args)
    last = said.strip().splitlines()[-1]
    if code != 0:
        failed = re.findall(r"^FAILED (\S+)", said, re.M)
        again, second = run(where, 1, *failed) if failed else (code, "")
        if again != 0:
            print(said[-20_000:], second[-20_000:], sep="\n")
            sys.exit(f"{where.name}: {last}")
        last += f"; run once more alone, those pass: {', '.join(failed)}"
    return re.sub(r"^=+ | =+$", "", last)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-n", type=int, default=1, help="workers (1)")
    parser.add_argument("--restores", type=int, default=0, help="kill at every N calls")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        log = Path(work, "restored")
        log.touch()
        os.environ.update(STELE_RESTORES=str(args.restores), STELE_RESTORED=str(log))
        sqlite = source("langgraph-checkpoint-sqlite", Path(work))
        # MetadataPredicate and search_where are SQL.
        said = pytest(
            sqlite,
            args.n,
            *(f"--deselect=tests/{name}" for name in DESELECTED),
            "-k",
            "not metadata_predicate and not search_where",
            *(f"tests/{name}" for name in SQLITE),
        )
        print(f"{sqlite.name}: {said}; {len(DESELECTED)} deselected with a reason")
        langgraph = source("langgraph", Path(work))
        files = [f"tests/{name}" for name in QUICK] if args.quick else ["tests"]
        said = pytest(langgraph, args.n, "-k", "sqlite or in_memory", *files)
        print(f"{langgraph.name}: {said}")
        restored = len(log.read_text().splitlines())
        if args.restores:
            print(f"{restored} servers were killed, and restored from their buckets")
        if args.restores and not restored:
            sys.exit("nothing was restored")


if __name__ == "__main__":
    main()
