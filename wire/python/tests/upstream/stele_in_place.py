"""A pytest plugin that gives LangGraph's own tests stele where they ask for SQLite.

`pytest -p stele_in_place` replaces LangGraph's savers and stores on SQLite, and
`InMemoryStore` without an index. Each gets a directory, and a server, of its own. With
STELE_RESTORES=N the server is killed at every N calls, and the next one begins with
what the bucket has; the file STELE_RESTORED gets a line each time. Nothing is deferred
then: it may be lost with the disk.
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
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import pytest
from servers import Kills, restored_environment

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver
from langgraph.store.stele import AsyncSteleStore, SteleStore

made = {"savers": 0, "stores": 0}
every = int(os.environ.get("STELE_RESTORES") or 0)
if every:
    os.environ.update(restored_environment(os.environ["STELE_RESTORED"]))


def kills(of: Any, directory: Path) -> None:
    if every:
        Kills(of, directory, every)


@contextmanager
def fresh_directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="stele"))
    try:
        yield root / "d"
    finally:
        with suppress(OSError, ValueError):
            pid = json.loads((root / "d/serve.json").read_bytes())["pid"]
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def directory_for(conn_string: str) -> Iterator[Path]:
    if conn_string == ":memory:":
        with fresh_directory() as directory:
            yield directory
    else:  # a file that another part of the test opens again
        yield Path(f"{conn_string}.stele")


class InPlaceOfSqlite(SteleSaver):
    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[SteleSaver]:
        made["savers"] += 1
        with (
            directory_for(conn_string) as directory,
            cls.from_dir(directory, defer_writes=not every) as saver,
        ):
            kills(saver, directory)
            yield saver


class InPlaceOfAsyncSqlite(AsyncSteleSaver):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[SteleSaver]:
        made["savers"] += 1
        with directory_for(conn_string) as directory:
            async with cls.from_dir(directory, defer_writes=not every) as saver:
                kills(saver, directory)
                yield saver


def no_embeddings(index: Any) -> None:
    if index:
        pytest.skip("the store makes no embeddings")


class InPlaceOfSqliteStore(SteleStore):
    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> Iterator[SteleStore]:
        no_embeddings(index)
        made["stores"] += 1
        with (
            directory_for(conn_string) as directory,
            cls.from_dir(directory, ttl=ttl) as store,
        ):
            kills(store, directory)
            yield store


class InPlaceOfAsyncSqliteStore(AsyncSteleStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator[SteleStore]:
        no_embeddings(index)
        made["stores"] += 1
        with directory_for(conn_string) as directory:
            async with cls.from_dir(directory, ttl=ttl) as store:
                kills(store, directory)
                yield store


_InMemoryStore: Any = langgraph.store.memory.InMemoryStore
_open: list[Any] = []


def in_place_of_memory(*args: Any, **kwargs: Any) -> Any:
    if args or any(kwargs.values()):
        return _InMemoryStore(*args, **kwargs)  # it makes embeddings
    made["stores"] += 1
    directory = fresh_directory()
    path = directory.__enter__()
    store = SteleStore.from_dir(path)
    kills(store, path)
    _open.append((store, directory))
    return store


def pytest_runtest_teardown() -> None:
    while _open:
        store, directory = _open.pop()
        store.close()
        directory.__exit__(None, None, None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"stele in place of: {made}")


def replace(module: Any, name: str, by: Any) -> None:
    setattr(module, name, by)


replace(langgraph.checkpoint.sqlite, "SqliteSaver", InPlaceOfSqlite)
replace(langgraph.checkpoint.sqlite.aio, "AsyncSqliteSaver", InPlaceOfAsyncSqlite)
replace(langgraph.store.sqlite, "SqliteStore", InPlaceOfSqliteStore)
replace(langgraph.store.sqlite, "AsyncSqliteStore", InPlaceOfAsyncSqliteStore)
replace(langgraph.store.sqlite.aio, "AsyncSqliteStore", InPlaceOfAsyncSqliteStore)
replace(langgraph.store.memory, "InMemoryStore", in_place_of_memory)
