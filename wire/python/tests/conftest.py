"""Directories for the tests, whose servers end with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers import end_server

from langgraph.checkpoint.stele._endpoint import find_binary


def need(there: object, what: str) -> None:
    """Skip a test that lacks its means, or fail where STELE_CLIENTS_REQUIRED is set."""
    if there:
        return
    if os.environ.get("STELE_CLIENTS_REQUIRED"):
        pytest.fail(f"{what}: missing, and STELE_CLIENTS_REQUIRED is set")
    pytest.skip(f"needs {what}", allow_module_level=True)


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
