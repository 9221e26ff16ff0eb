"""Makes a LangGraph run a pure function of its program.

Five sources of chance reach a checkpoint: the clock (ids, ``ts``), the random
part of ids and versions, message ids, run ids, and the order in which worker
threads finish. Each is replaced by a counter or a seeded generator that
``reset`` puts back to its beginning; hash order is fixed by PYTHONHASHSEED.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime as _datetime
import os
import random
import sys
import types
import uuid
from typing import Any, Callable, Iterator

# 2026-01-19T10:17:07Z, in nanoseconds; each look at the clock is a little later.
_EPOCH_NS = 1_768_817_827_000_000_000
_TICK_NS = 137_000

# The settings are read when LangGraph is imported, so they come first.
_ENVIRONMENT = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGGRAPH_STRICT_MSGPACK": "false",
}


class _Chance:
    """Clock and random numbers of one recording."""

    def __init__(self) -> None:
        self.reset("")

    def reset(self, seed: str) -> None:
        self.now_ns = _EPOCH_NS
        self.versions = random.Random(f"versions/{seed}")
        self.nodes = random.Random(f"nodes/{seed}")
        self.uuids = random.Random(f"uuids/{seed}")
        self.runs = 0

    def time_ns(self) -> int:
        self.now_ns += _TICK_NS
        return self.now_ns

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self.uuids.getrandbits(128), version=4)

    def uuid7(self, *_: Any, **__: Any) -> uuid.UUID:
        self.runs += 1
        return uuid.UUID(f"019bd5c1-0000-7000-8000-{self.runs:012x}")


chance = _Chance()


class _Datetime(_datetime.datetime):
    """datetime whose ``now`` reads the injected clock."""

    @classmethod
    def now(cls, tz: _datetime.tzinfo | None = None) -> _datetime.datetime:
        micros = chance.time_ns() // 1_000
        start = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)
        return start + _datetime.timedelta(microseconds=micros)


class InlineExecutor(concurrent.futures.Executor):
    """Runs what is submitted at once, in the caller's thread.

    It is one legal schedule of LangGraph's thread pool: tasks of a step finish
    in the order they were prepared, and a save has ended before the next
    begins. Programs that want another order run on asyncio, which has one
    thread and is therefore reproducible as it is.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            result = fn(*args, **kwargs)
        except BaseException as exc:  # noqa: BLE001: the future carries it
            future.set_exception(exc)
        else:
            future.set_result(result)
        return future


@contextlib.contextmanager
def _inline_executor(_config: Any = None) -> Iterator[InlineExecutor]:
    yield InlineExecutor()


def _replace_everywhere(old: Any, new: Any) -> None:
    """Rebinds every module attribute that is ``old``: ``from x import y`` copies names."""
    for module in list(sys.modules.values()):
        if module is None or module.__name__ == __name__:
            continue
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def ensure_hash_seed() -> None:
    """Starts this program again with PYTHONHASHSEED=0 unless it runs so."""
    if os.environ.get("PYTHONHASHSEED") == "0":
        return
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONHASHSEED": "0"}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def install() -> None:
    """Injects clock, randomness and schedule; once per process."""
    os.environ.update(_ENVIRONMENT)
    import langchain_core.runnables.config as runnable_config
    import langchain_core.utils.uuid as core_uuid
    import langgraph.checkpoint.base.id as ids
    import langgraph.checkpoint.memory as memory
    import langgraph.func  # noqa: F401: binds names that are replaced below
    import langgraph.graph  # noqa: F401
    import langgraph.prebuilt  # noqa: F401
    import langgraph.pregel._checkpoint as pregel_checkpoint
    import langgraph.pregel._loop as pregel_loop

    _replace_everywhere(core_uuid.uuid7, chance.uuid7)
    _replace_everywhere(uuid.uuid4, chance.uuid4)
    _replace_everywhere(runnable_config.get_executor_for_config, _inline_executor)
    ids.time = types.SimpleNamespace(time_ns=chance.time_ns)
    ids.random = types.SimpleNamespace(getrandbits=lambda n: chance.nodes.getrandbits(n))
    memory.random = types.SimpleNamespace(random=lambda: chance.versions.random())
    pregel_checkpoint.datetime = _Datetime
    pregel_loop.datetime = _Datetime


def reset(seed: str) -> None:
    """Puts clock and randomness back to the beginning for the fixture ``seed``."""
    import langgraph.checkpoint.base.id as ids

    chance.reset(seed)
    ids._last_v6_timestamp = None
