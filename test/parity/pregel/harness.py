"""Runs LangGraph with everything that differs from run to run injected, and
writes what it does as canonical JSON lines.

Clock, random numbers and the order of tasks are fixed: the clock of checkpoint
ids stands still (ids then grow by one tick each), their node is a constant, the
random part of versions counts checkpoint ids, and tasks run one after another. So a trace is
a function of the scenario alone.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import dataclasses
import json
import random
import time
from types import SimpleNamespace
from typing import Any

import langgraph.checkpoint.base.id as idmod
import langgraph.pregel._runner as runnermod
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.pregel._executor import BackgroundExecutor
from langgraph.pregel._loop import PregelLoop
from langgraph.types import Command, Interrupt, Overwrite, Send

CLOCK_NS = 1_700_000_000_000_000_000
NODE = 0xBDE4E02AB92B


class FixedTime:
    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def time_ns() -> int:
        return CLOCK_NS


class FixedRandom:
    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)

    @staticmethod
    def getrandbits(n: int) -> int:
        Fractions.ids += 1
        return NODE & ((1 << n) - 1)


class Boom(Exception):
    """An error whose stored form is its text, as in Go."""

    def __repr__(self) -> str:
        return str(self)


def run_inline(self: Any, fn: Any, *args: Any, **kwargs: Any) -> concurrent.futures.Future:
    """Runs what is submitted at once, so that tasks run one after another in
    their order. Only the wait for stream events needs a thread."""
    for k in ("__name__", "__cancel_on_exit__", "__reraise_on_exit__", "__next_tick__"):
        kwargs.pop(k, None)
    if getattr(fn, "__name__", "") == "wait":
        return self.executor.submit(fn, *args, **kwargs)
    fut: concurrent.futures.Future = concurrent.futures.Future()
    try:
        fut.set_result(contextvars.copy_context().run(fn, *args, **kwargs))
    except BaseException as e:  # noqa: BLE001
        fut.set_exception(e)
    return fut


class InOrder(dict):
    """A set that keeps its order: StateGraph holds edges in a set, so the order
    of a node's writes would depend on the hash seed. The runner joins the
    interrupts of tasks in the order of a set, that is, of addresses."""

    def __init__(self, xs: Any = ()) -> None:
        super().__init__((x, None) for x in xs)

    def add(self, x: Any) -> None:
        self[x] = None

    def union(self, xs: Any) -> "InOrder":
        return InOrder([*self, *xs])

    def pop(self) -> Any:
        x = next(iter(self))
        del self[x]
        return x

    def __or__(self, other: Any) -> set:
        return set(self) | set(other)


def init_in_order(self: Any, *args: Any, **kwargs: Any) -> None:
    graph_init(self, *args, **kwargs)
    self.edges = InOrder()


def stub_without_id(self: Any) -> None:
    """An Exit run makes an id for its stub and does not use it."""
    last, ids = idmod._last_v6_timestamp, Fractions.ids
    put_exit_delta_writes(self)
    idmod._last_v6_timestamp, Fractions.ids = last, ids


class InOrderFutures:
    """concurrent.futures whose wait gives what is done in the order it was
    submitted, not of addresses."""

    def __getattr__(self, name: str) -> Any:
        return getattr(concurrent.futures, name)

    @staticmethod
    def wait(fs: Any, **kwargs: Any) -> tuple:
        order = list(fs)
        done, others = concurrent.futures.wait(order, **kwargs)
        return InOrder(f for f in order if f in done), others


put_exit_delta_writes = PregelLoop._put_exit_delta_writes
PregelLoop._put_exit_delta_writes = stub_without_id  # type: ignore[method-assign]
graph_init = StateGraph.__init__
StateGraph.__init__ = init_in_order  # type: ignore[method-assign]
submit_to_threads = BackgroundExecutor.submit
BackgroundExecutor.submit = run_inline  # type: ignore[method-assign]
runnermod.set = InOrder  # type: ignore[attr-defined]
runnermod.concurrent = SimpleNamespace(futures=InOrderFutures())  # type: ignore[assignment]
idmod.time = FixedTime()
idmod.random = FixedRandom()


@contextlib.contextmanager
def at_once() -> Any:
    """Tasks run at the same time, as in a program. Their order is for the scenario to fix."""
    BackgroundExecutor.submit = submit_to_threads  # type: ignore[method-assign]
    try:
        yield
    finally:
        BackgroundExecutor.submit = run_inline  # type: ignore[method-assign]


class Fractions:
    """The random part of versions: the number of checkpoint ids made so far. Two
    forks that reach one version with equal fractions would overwrite each other
    in LangGraph's saver."""

    ids = 0

    def __call__(self) -> float:
        return (self.ids % 4096) / 4096


random.random = Fractions()  # type: ignore[assignment]


def canon(v: Any) -> Any:
    if type(v).__name__ == "_DeltaSnapshot":
        return {"$snapshot": canon(v.value)}
    if isinstance(v, Interrupt):
        schema = {} if v.response_schema is None else {"response_schema": canon(v.response_schema)}
        return {"$interrupt": {"id": v.id, "value": canon(v.value), **schema}}
    if isinstance(v, Send):
        return {"$send": [v.node, canon(v.arg)]}
    if isinstance(v, Overwrite):
        return {"$overwrite": canon(v.value)}
    if isinstance(v, BaseMessage):
        return {"$message": {"id": v.id, "role": v.type.removesuffix("MessageChunk").lower(), "content": canon(v.content)}}
    if isinstance(v, BaseException):
        return {"$error": str(v)}
    if isinstance(v, dict):
        return {str(k): canon(x) for k, x in v.items()}
    if isinstance(v, (set, frozenset)):
        return {"$set": sorted(canon(x) for x in v)}
    if isinstance(v, (list, tuple)):
        return [canon(x) for x in v]
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        return {"$" + type(v).__name__: canon(dataclasses.asdict(v))}
    if isinstance(v, bool) or v is None or isinstance(v, (int, float, str)):
        return v
    raise TypeError(f"no canonical form for {type(v)}: {v!r}")


def place(config: dict | None) -> Any:
    if config is None:
        return None
    conf = config["configurable"]
    out = {k: conf[k] for k in ("thread_id", "checkpoint_ns", "checkpoint_id") if conf.get(k)}
    if m := conf.get("checkpoint_map"):
        out["checkpoint_map"] = m
    return out


def interrupts(v: Any) -> list:
    return [canon(i) for i in v]


class Trace:
    def __init__(self, durability: str):
        idmod._last_v6_timestamp = None
        Fractions.ids = 0
        self.durability = durability
        self.flat = False  # graphs inside are not shown
        self.metadata = False  # of tasks is shown
        self.lines: list[str] = []
        self.deeds: list[tuple[str, Any]] = []
        self.saver: Any = InMemorySaver()

    def call(self, kind: str, f: Any) -> Any:
        """Makes one call of a scenario. See handover.py."""
        return f()

    def does(self, name: str, value: Any = None) -> int:
        """Is called by a node that has an effect outside the store. It returns how
        often that effect was seen."""
        self.deeds.append((name, value))
        return len(self.did(name))

    def did(self, name: str) -> list:
        return [v for n, v in self.deeds if n == name]

    def show(self, key: str, value: Any) -> None:
        """Writes a line about the world outside."""
        self.call("show", lambda: self.put(**{key: value()}))

    def put(self, **line: Any) -> None:
        self.lines.append(json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    def config(self, thread: str = "t", **conf: Any) -> dict:
        return {"configurable": {"thread_id": thread, **conf}}

    def run(self, graph: Any, input: Any, config: dict | None = None, *, modes: list[str] | None = None, **kw: Any) -> None:
        """Streams a run in every mode."""
        self.call("run", lambda: self.stream(graph, input, config, modes, **kw))

    def stream(self, graph: Any, input: Any, config: dict | None, modes: list[str] | None, **kw: Any) -> None:
        config = dict(config or self.config())
        modes = modes or ["values", "updates", "custom", "checkpoints", "tasks"]
        self.put(call="run")
        try:
            for event in graph.stream(input, config, stream_mode=modes, subgraphs=not self.flat, durability=self.durability, **kw):
                self.event(*(((), *event) if self.flat else event))
        except Exception as e:  # noqa: BLE001
            self.error(e)

    def event(self, ns: tuple, mode: str, data: Any) -> None:
        line: dict[str, Any] = {"mode": mode, "ns": list(ns)}
        if mode == "debug":
            line["type"], line["step"] = data["type"], data["step"]
            mode, data = "checkpoints" if data["type"] == "checkpoint" else "tasks", data["payload"]
        if mode == "values":
            if isinstance(data, dict) and "__interrupt__" in data:
                data = dict(data)
                line["interrupts"] = interrupts(data.pop("__interrupt__"))
            line["data"] = canon(data)
        elif mode == "messages":
            message, md = data
            line["message"] = canon(message)
            line["metadata"] = self.user_metadata(md)
        elif mode == "updates":
            data = dict(data)
            if data.pop("__metadata__", None):
                line["cached"] = True
            (node, value), = data.items()
            line["node"] = node
            if node == "__interrupt__":
                line["interrupts"] = interrupts(value)
            else:
                line["data"] = canon(value)
        elif mode == "tasks" and "triggers" in data:
            line["task"] = {k: canon(data[k]) for k in ("id", "name", "input", "triggers")}
            if self.metadata:
                line["metadata"] = self.user_metadata(data.get("metadata") or {})
        elif mode == "tasks":
            line["result"] = {
                "id": data["id"],
                "name": data["name"],
                "error": None if data["error"] is None else str(data["error"]),
                "result": canon(data["result"]),
                "interrupts": [{"id": i["id"], "value": canon(i["value"])} for i in data["interrupts"]],
            }
        elif mode == "checkpoints":
            line["checkpoint"] = {
                "config": place(data["config"]),
                "parent": place(data["parent_config"]),
                "values": canon(data["values"]),
                "metadata": canon(data["metadata"]),
                "next": list(data["next"]),
                "tasks": [self.task(t) for t in data["tasks"]],
            }
        else:
            line["data"] = canon(data)
        self.put(**line)

    @staticmethod
    def user_metadata(md: Any) -> dict:
        """Without what its tracer adds."""
        return {k: canon(v) for k, v in md.items() if not k.startswith(("ls_", "lc_"))}

    @staticmethod
    def task(t: dict) -> dict:
        return {
            "id": t["id"],
            "name": t["name"],
            "error": None if t.get("error") is None else str(t["error"]),
            "interrupts": [i["id"] for i in t.get("interrupts", ())],
        }

    def error(self, e: BaseException) -> None:
        self.put(error=type(e).__name__, text=str(e) if isinstance(e, Boom) else "")

    def state(self, graph: Any, config: dict | None = None, subgraphs: bool = False) -> Any:
        def state() -> Any:
            snap = graph.get_state(config or self.config(), subgraphs=subgraphs)
            self.put(state=self.snapshot(snap))
            return snap

        return self.call("state", state)

    def history(self, graph: Any, config: dict | None = None) -> list:
        def history() -> list:
            snaps = list(graph.get_state_history(config or self.config()))
            for s in snaps:
                self.put(history=self.snapshot(s))
            return snaps

        return self.call("history", history)

    def queried(self, graph: Any, **query: Any) -> None:
        """Shows a part of the history."""

        def history() -> None:
            self.put(call="history")
            for s in graph.get_state_history(self.config(), **query):
                self.put(history=self.snapshot(s))

        self.call("history", history)

    def snapshot(self, s: Any) -> dict:
        return {
            "values": canon(s.values),
            "next": list(s.next),
            "config": place(s.config),
            "parent": place(s.parent_config),
            "metadata": canon(s.metadata),
            "interrupts": [i.id for i in s.interrupts],
            "tasks": [
                {
                    "id": t.id,
                    "name": t.name,
                    "path": canon(t.path),
                    "error": None if t.error is None else str(t.error),
                    "interrupts": [canon(i) for i in t.interrupts],
                    "result": canon(t.result),
                    "state": None
                    if t.state is None
                    else place(t.state)
                    if isinstance(t.state, dict)
                    else self.snapshot(t.state),
                }
                for t in s.tasks
            ],
        }

    def update(self, graph: Any, config: dict, values: Any, **kw: Any) -> dict:
        def update() -> dict:
            try:
                out = graph.update_state(config, values, **kw)
            except Exception as e:  # noqa: BLE001
                self.error(e)
                return config
            self.put(updated=place(out))
            return out

        return self.call("update", update)

    def bulk(self, graph: Any, steps: list, shown: Any = lambda out: None) -> None:
        """Updates the state several times at once."""

        def update() -> None:
            try:
                shown(graph.bulk_update_state(self.config(), steps))
            except Exception as e:  # noqa: BLE001
                self.error(e)

        self.call("update", update)

    def dump(self) -> None:
        """Everything the saver holds."""
        for tup in sorted(self.saver.list(None), key=lambda t: (t.config["configurable"]["thread_id"], t.config["configurable"]["checkpoint_ns"], t.checkpoint["id"])):
            cp = tup.checkpoint
            writes = [[t, c, canon(v)] for t, c, v in tup.pending_writes]
            self.put(
                stored={
                    "config": place(tup.config),
                    "parent": place(tup.parent_config),
                    "metadata": canon(tup.metadata),
                    "v": cp["v"],
                    "values": canon(cp["channel_values"]),
                    "versions": canon(cp["channel_versions"]),
                    "seen": canon(cp["versions_seen"]),
                    "updated": canon(cp.get("updated_channels")),
                    "writes": writes,
                }
            )
