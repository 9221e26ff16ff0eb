"""The servers of directories, for tests that end or kill them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from langgraph.checkpoint.stele import SteleSaver
from langgraph.checkpoint.stele._endpoint import find_binary
from langgraph.store.stele import SteleStore

LATEST = 7  # milliseconds into a call, of Kills


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


def restored_environment(log: str | Path) -> dict[str, str]:
    """The variables by which each server begins with what its bucket has.

    log gets a line for each that was restored.
    """
    return {
        "STELE_SERVED": find_binary(),
        "STELE_BINARY": str(Path(__file__).with_name("restored.py")),
        "STELE_RESTORED": str(log),
    }


class Kills:
    """Kills the server of a directory at every so many calls of savers and stores.

    The calls of all in this process count. Of these kills one comes before the call,
    and the next ones a millisecond later each, wherever the call is by then.
    """

    count = itertools.count(1)

    def __init__(
        self, made: SteleSaver | SteleStore, directory: Path, every: int
    ) -> None:
        self.done = 0
        client = made._client

        def kill() -> None:
            self.done += kill_server(directory)

        def before() -> None:
            kills, rest = divmod(next(Kills.count), every)
            if rest == 0 and kills % LATEST == 1:
                kill()
            elif rest == 0:
                threading.Timer((kills - 1) % LATEST / 1000, kill).start()

        pool_call, pool_stream = client._pool.call, client._pool.stream

        def call(method: str, params: Any, *, write: bool) -> Any:
            before()
            return pool_call(method, params, write=write)

        def stream(method: str, params: Any) -> Any:
            before()
            return pool_stream(method, params)

        client._pool.call = call  # type: ignore[method-assign]
        client._pool.stream = stream  # type: ignore[method-assign]
        acall, awrite, astream = client.acall, client.awrite, client.astream

        async def kill_acall(method: str, params: Any) -> Any:
            before()
            return await acall(method, params)

        async def kill_awrite(method: str, params: Any) -> Any:
            before()
            return await awrite(method, params)

        def kill_astream(method: str, params: Any, key: Any) -> Any:
            before()
            return astream(method, params, key)

        client.acall = kill_acall  # type: ignore[method-assign]
        client.awrite = kill_awrite  # type: ignore[method-assign]
        client.astream = kill_astream  # type: ignore[method-assign]
