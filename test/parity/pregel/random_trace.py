"""Writes the traces of random graphs: python random_trace.py file first count [alike],
or those of FOUND: python random_trace.py file found

A graph in which a task fails before another has begun is left out: whether the
other still runs is a matter of threads. So is one whose trace is long, one in
which LangGraph takes a graph inside for finished that was not called yet, and one in
which a graph inside is given what it cannot take.
"""

import gzip
import json
import logging
import sys
from typing import Any

from langgraph._internal._config import recast_checkpoint_ns
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.pregel._executor import BackgroundExecutor

from harness import Trace, run_inline
from random_graphs import LOOSE, draw
from random_run import Run

logging.disable(logging.WARNING)

FOUND = (2165, 8382, 9151)  # seeds that once differed


class Watch:
    """Notes when a task begins in a superstep in which another has failed."""

    def __init__(self, spec: dict) -> None:
        self.failed: dict[int, Any] = {}
        self.commands: dict[int, Any] = {}
        self.unordered = False
        self.by_chance = False
        self.handled: set[str] = set()
        self.note(spec["graph"], "")

    def note(self, g: dict, path: str) -> None:
        for n in g["nodes"]:
            if n.get("handler"):
                self.handled.add(path + n["name"])
            if n.get("sub"):
                self.note(n["sub"], path + n["name"] + "|")

    def submit(self, executor: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        is_task = getattr(fn, "__name__", "") == "run_with_retry"
        if is_task and id(executor) in self.failed:
            self.unordered = True
        fut = run_inline(executor, fn, *args, **kwargs)
        if is_task and isinstance(fut.exception(), ParentCommand):
            self.commands[id(executor)] = executor
        elif is_task and fut.exception() is not None and not isinstance(fut.exception(), GraphBubbleUp):
            ns = recast_checkpoint_ns(args[0].config["configurable"]["checkpoint_ns"])
            if ns not in self.handled:
                self.failed[id(executor)] = executor
        self.by_chance = self.by_chance or id(executor) in self.failed and id(executor) in self.commands
        return fut


def goes_on_from_the_end(lines: list[str]) -> bool:
    """Whether a graph inside went on from the end of an earlier call, where stele
    calls it: it shows a checkpoint after which nothing is left for a second time."""
    seen: set[tuple] = set()
    for line in map(json.loads, lines):
        if (c := line.get("checkpoint")) and line.get("ns") and not c["next"]:
            at = (*line["ns"], c["config"]["checkpoint_id"])
            if at in seen:
                return True
            seen.add(at)
    return False


def refused_inside(lines: list[str]) -> bool:
    """Whether a graph inside was given what it cannot take: LangGraph stores it as its
    input and raises then, stele refuses it."""
    inside, refused = set(), set()
    for line in map(json.loads, lines):
        if line.get("checkpoint") and line.get("ns"):
            inside.add(line["ns"][-1])
        r = line.get("result")
        if isinstance(r, dict) and str(r.get("error")).startswith("Expected dict, got"):
            refused |= {r["name"], f"{r['name']}:{r['id']}"}
    return bool(inside & refused)


def contradicts_itself(lines: list[str]) -> bool:
    """Whether a delta channel in a checkpoint was shown with two values: a fork of LangGraph's replays
    what was written on the branch that it left."""
    shown: dict[str, Any] = {}
    for line in map(json.loads, lines):
        c = line.get("history") or line.get("checkpoint")
        if c and not line.get("ns") and "k_delta" in c["values"]:
            values = c["values"]["k_delta"]
            if shown.setdefault(c["config"]["checkpoint_id"], values) != values:
                return True
    return False


class TooLong(BaseException):
    pass


class Short(Trace):
    """A trace that is given up when it grows long."""

    def put(self, **line: Any) -> None:
        super().put(**line)
        if len(self.lines) > 350 or len(self.lines[-1]) > 100_000:
            raise TooLong


def traces_of(spec: dict, alike: bool) -> dict[str, list[str]] | None:
    traces = {}
    # LangGraph's Exit stores what an unfinished superstep wrote to channels that
    # are never stored.
    for durability in ("sync",) if "k_untracked" in spec["keys"] else ("sync", "exit"):
        watch = Watch(spec)
        BackgroundExecutor.submit = lambda *args, **kwargs: watch.submit(*args, **kwargs)  # type: ignore[method-assign]
        t = Short(durability)
        try:
            run = Run(t, spec)
            run.play()
            t.dump()
        except TooLong:
            return None
        traces[durability] = t.lines
        if watch.unordered and spec["seed"] < LOOSE or goes_on_from_the_end(t.lines) or refused_inside(t.lines):
            return None
        if alike and (watch.by_chance or run.differs() or contradicts_itself(t.lines)):
            return None
    return traces


def main() -> None:
    name = sys.argv[1]
    seeds = FOUND if sys.argv[2] == "found" else range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3]))
    graphs, lines = 0, 0
    with gzip.GzipFile(name, "wb", mtime=0) as f:
        for seed in seeds:
            spec = draw(seed)
            if (traces := traces_of(spec, len(sys.argv) > 4)) is None:
                continue
            graphs, lines = graphs + 1, lines + sum(map(len, traces.values()))
            f.write(json.dumps({"spec": spec, "traces": traces}, separators=(",", ":")).encode() + b"\n")
    print(f"{graphs} graphs, {lines} lines")


main()
