"""Directories for the tests, whose servers end with them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from langgraph.checkpoint.stele._endpoint import find_binary


def need(there: object, what: str) -> None:
    """Skip a test that lacks its means, or fail where STELE_CLIENTS_REQUIRED is set."""
    if there:
        return
    if os.environ.get("STELE_CLIENTS_REQUIRED"):
        pytest.fail(f"{what}: missing, and STELE_CLIENTS_REQUIRED is set")
    pytest.skip(f"needs {what}", allow_module_level=True)


def server_pid(directory: Path) -> int | None:
    """The process that serves a directory; None if there is none."""
    try:
        pid = json.loads((directory / "serve.json").read_bytes())["pid"]
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # it may be a child of ours that is dead
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError):
        return None
    return int(pid)


def kill_server(directory: Path) -> bool:
    """kill -9 of the server, if there is one."""
    pid = server_pid(directory)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def end_server(directory: Path) -> None:
    """Let the server end and wait for it."""
    pid = server_pid(directory)
    if pid is None:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while server_pid(directory) == pid and time.monotonic() < deadline:
        time.sleep(0.005)


def stele(*args: object) -> subprocess.CompletedProcess[str]:
    """Run the binary."""
    command = [find_binary(), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def make_directory() -> Iterator[Callable[[], Path]]:
    """Makes paths for stores. They are short: a socket's path has its limit."""
    root = Path(tempfile.mkdtemp(prefix="stele"))
    made: list[Path] = []

    def make() -> Path:
        made.append(root / f"d{len(made)}")
        return made[-1]

    try:
        yield make
    finally:
        for directory in made:
            end_server(directory)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def directory(make_directory: Callable[[], Path]) -> Path:
    """The path of a store that is not there yet."""
    return make_directory()
