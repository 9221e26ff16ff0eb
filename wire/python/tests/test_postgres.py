"""LangGraph's conformance suite on a server that serves a PostgreSQL database.

It needs the server's programs, as Debian's package postgresql has them. Where they are
missing it is skipped, or fails if STELE_CLIENTS_REQUIRED is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from bridges import Blocking
from conftest import need
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from langgraph.checkpoint.stele import SteleSaver
from langgraph.checkpoint.stele._endpoint import find_binary
from langgraph.store.stele import SteleStore

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a fresh PostgreSQL."""
    need(PROGRAMS, "PostgreSQL")
    root = Path(tempfile.mkdtemp(prefix="stele-pg"))
    root.chmod(0o755)
    # The programs refuse to run as root.
    user = "nobody" if os.getuid() == 0 else None
    if user is not None:
        shutil.chown(root, user)

    def run(name: str, *args: str) -> None:
        with (root.parent / f"{root.name}.log").open("ab") as log:
            subprocess.run(
                [PROGRAMS[-1].with_name(name), "-D", root / "data", *args],
                cwd=root, user=user, check=True, stdout=log, stderr=log,
            )  # fmt: skip

    try:
        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = (
            f"-c listen_addresses= -c unix_socket_directories={root} -c fsync=off"
        )
        run("pg_ctl", "-w", "-l", str(root / "log"), "-o", settings, "start")
        try:
            yield f"postgres://postgres@/postgres?host={root}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(root, ignore_errors=True)
        (root.parent / f"{root.name}.log").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def url(database: str) -> Iterator[str]:
    """The URL of a server that serves it."""
    root = Path(tempfile.mkdtemp(prefix="stele"))
    url = f"unix:{root}/sock"
    process = subprocess.Popen(
        [find_binary(), "serve", "--postgres", database, "--setup", "--listen", url],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        yield url
    finally:
        process.terminate()
        process.communicate()
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
async def test_conformance(url: str, blocking: bool) -> None:
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        made = SteleSaver.from_url(url)
        yield Blocking(made) if blocking else made
        await made.aclose()

    report = await validate(checkpointer_test(name="stele")(saver))
    failures = {name: r.failures for name, r in report.results.items() if r.failures}
    assert not failures
    assert {name for name, r in report.results.items() if r.passed} == {
        capability.value for capability in ALL_CAPABILITIES
    }


def test_the_store(url: str) -> None:
    with SteleStore.from_url(url) as store:
        namespace = ("users", "1")
        store.put(namespace, "k", {"n": 1})
        assert [item.value for item in store.search(namespace)] == [{"n": 1}]
