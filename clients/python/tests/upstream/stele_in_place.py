"""A pytest plugin that gives LangGraph's own tests stele where they ask for SQLite.

`pytest -p stele_in_place` replaces `SqliteSaver.from_conn_string`, its asyncio twin,
and `InMemoryStore` without an index. Each gets a directory, and a server, of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import langgraph.store.memory

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver
from langgraph.store.stele import SteleStore

made = {"savers": 0, "stores": 0}


@contextmanager
def fresh_directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="stele"))
    try:
        yield root / "d"
    finally:
        with suppress(OSError, ValueError):
            pid = json.loads((root / "d" / "serve.json").read_bytes())["pid"]
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(root, ignore_errors=True)


class InPlaceOfSqlite(SteleSaver):
    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[SteleSaver]:
        assert conn_string == ":memory:"
        made["savers"] += 1
        with fresh_directory() as directory, cls.from_dir(directory) as saver:
            yield saver


class InPlaceOfAsyncSqlite(AsyncSteleSaver):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[SteleSaver]:
        assert conn_string == ":memory:"
        made["savers"] += 1
        with fresh_directory() as directory:
            async with cls.from_dir(directory) as saver:
                yield saver


_InMemoryStore: Any = langgraph.store.memory.InMemoryStore
_open: list[Any] = []


def in_place_of_memory(*args: Any, **kwargs: Any) -> Any:
    if args or any(kwargs.values()):
        return _InMemoryStore(*args, **kwargs)  # it makes embeddings
    made["stores"] += 1
    directory = fresh_directory()
    store = SteleStore.from_dir(directory.__enter__())
    _open.append((store, directory))
    return store


def pytest_runtest_teardown() -> None:
    while _open:
        store, directory = _open.pop()
        store.close()
        directory.__exit__(None, None, None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"stele in place of: {made}")


langgraph.checkpoint.sqlite.SqliteSaver = InPlaceOfSqlite  # type: ignore[misc,assignment]
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = (  # type: ignore[misc]
    InPlaceOfAsyncSqlite  # type: ignore[assignment]
)
langgraph.store.memory.InMemoryStore = in_place_of_memory  # type: ignore[misc,assignment]
