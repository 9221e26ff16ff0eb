"""The graphs of bench/graphs on LangGraph.

Reads one request a line and answers each with one line, both JSON:

    {"graph": "loop", "saver": "memory", "durability": "async", "seconds": 0.5}
    {"seconds": 0.61, "cpu": 0.60, "runs": 2}

A run is what bench/graphs calls one: all turns of one thread. A request with
"work" runs once and says what was done instead. "dir" is a new directory for a
saver on disk.
"""

import json
import operator
import os
import sqlite3
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send


class Counted(TypedDict):
    n: int


class Summed(TypedDict):
    sum: Annotated[int, operator.add]


class Chatted(TypedDict):
    messages: Annotated[list[str], operator.add]


class Ran:
    """Counts how often nodes ran. Adding is atomic under the GIL only by list."""

    def __init__(self):
        self.times = []

    def add(self):
        self.times.append(None)


def loop(ran, n=1000):
    def count(state):
        ran.add()
        after = state["n"] + 1
        if after == n:
            return {"n": after}
        return Command(update={"n": after}, goto="count")

    g = StateGraph(Counted)
    g.add_node("count", count)
    g.add_edge(START, "count")
    return g, {"n": 0}, 1, lambda s: s["n"]


def send(ran, n=1000):
    sends = [Send("work", i) for i in range(n)]

    def plan(state):
        ran.add()
        return Command(goto=sends)

    def work(i):
        ran.add()
        return {"sum": i}

    g = StateGraph(Summed)
    g.add_node("plan", plan)
    g.add_node("work", work)
    g.add_edge(START, "plan")
    return g, {"sum": 0}, 1, lambda s: s["sum"]


def one(ran, while_=0):
    def node(state):
        ran.add()
        if while_:
            time.sleep(while_)
        return {"sum": 1}

    return node


def diamond(ran, wide=18):
    g = StateGraph(Summed)
    g.add_node("first", one(ran))
    g.add_node("last", one(ran))
    g.add_edge(START, "first")
    side = [f"side{i:02d}" for i in range(wide)]
    for name in side:
        g.add_node(name, one(ran))
        g.add_edge("first", name)
    g.add_edge(side, "last")
    return g, {"sum": 0}, 1, lambda s: s["sum"]


def chat(ran, turns=100):
    text = "words and " * 40

    def model(state):
        ran.add()
        return {"messages": [text]}

    g = StateGraph(Chatted)
    g.add_node("model", model)
    g.add_edge(START, "model")
    return g, {"messages": [text]}, turns, lambda s: len(s["messages"])


def line(ran, n=20, while_=0):
    g = StateGraph(Summed)
    last = START
    for i in range(n):
        name = f"node{i:02d}"
        g.add_node(name, one(ran, while_))
        g.add_edge(last, name)
        last = name
    return g, {"sum": 0}, 1, lambda s: s["sum"]


GRAPHS = {
    "loop": loop,
    "send": send,
    "diamond": diamond,
    "chat": chat,
    "line": line,
    "line1ms": lambda ran: line(ran, while_=0.001),
}


def open_saver(request):
    """The saver, and what closes it."""
    match request["saver"]:
        case "none":
            return None, lambda: None
        case "memory":
            return InMemorySaver(), lambda: None
        case "disk":
            path = os.path.join(request["dir"], "checkpoints.sqlite")
            conn = sqlite3.connect(path, check_same_thread=False)
            # Every commit is on stable storage when it returns, as with stele.
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
            return SqliteSaver(conn), conn.close
    raise ValueError(request["saver"])


def config(thread):
    return {"configurable": {"thread_id": thread}, "recursion_limit": 2000}


def measure(request):
    ran = Ran()
    g, given, turns, result = GRAPHS[request["graph"]](ran)
    saver, close = open_saver(request)
    app = g.compile(checkpointer=saver)
    # Without a saver LangGraph takes no durability.
    options = {"durability": request["durability"]} if saver else {}

    def run(thread):
        state = None
        for _ in range(turns):
            state = app.invoke(given, config(thread), **options)
        return state

    try:
        if request.get("work"):
            state = run("thread")
            work = {"tasks": len(ran.times), "result": result(state), "checkpoints": 0, "writes": 0, "step": 0}
            if saver:
                stored = list(saver.list(config("thread")))
                work["checkpoints"] = len(stored)
                work["writes"] = sum(len(t.pending_writes or []) for t in stored)
                work["step"] = stored[0].metadata["step"]
            return work
        runs, begin, computed = 0, time.perf_counter(), time.process_time()
        while True:
            run(f"thread-{runs}")
            runs += 1
            took = time.perf_counter() - begin
            if took >= request["seconds"]:
                return {"seconds": took, "cpu": time.process_time() - computed, "runs": runs}
    finally:
        close()


def main():
    for text in sys.stdin:
        print(json.dumps(measure(json.loads(text))), flush=True)


main()
