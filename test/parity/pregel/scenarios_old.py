"""Threads that older releases stored; see old.py. Each is shown, gone on with from
its question, and gone on with from its middle."""

import json
import os
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt

from harness import Trace
from scenarios import Steps, adds, asker, scenario


def graph(t: Trace) -> Any:
    b = StateGraph(Steps)
    for n in ("plan", "analyze", "fetch1", "fetch2"):
        b.add_node(n, adds(n))
    b.add_node("qa", asker("ok?"))
    b.add_edge(START, "plan")
    b.add_edge("plan", "analyze")
    b.add_conditional_edges("plan", more, ["fetch2"])
    b.add_edge("analyze", "fetch1")
    b.add_edge(["fetch1", "fetch2"], "qa")
    b.add_edge("qa", END)
    return b.compile(checkpointer=t.saver)


def more(_: Any) -> str:
    return "fetch2"


def revive(v: Any) -> Any:
    if isinstance(v, list):
        return [revive(x) for x in v]
    if isinstance(v, dict) and "$interrupt" in v:
        return Interrupt(value=v["$interrupt"]["value"], id=v["$interrupt"]["id"])
    if isinstance(v, dict) and "$set" in v:
        return set(v["$set"])
    return v


def store(t: Trace, thread: str, cp: dict) -> None:
    conf = {"thread_id": thread, "checkpoint_ns": ""}
    config = {"configurable": {**conf, **({"checkpoint_id": cp["parent"]} if cp["parent"] else {})}}
    checkpoint = {
        "v": cp["v"],
        "id": cp["id"],
        "ts": cp["ts"],
        "channel_values": {k: revive(v) for k, v in cp["values"].items()},
        "channel_versions": cp["versions"],
        "versions_seen": cp["seen"],
        "pending_sends": [],
    }
    t.saver.put(config, checkpoint, cp["metadata"], cp["versions"])
    at = {"configurable": {**conf, "checkpoint_id": cp["id"]}}
    for task in dict.fromkeys(w[0] for w in cp["writes"]):
        t.saver.put_writes(at, [(ch, revive(v)) for id, ch, v in cp["writes"] if id == task], task)


def threads(t: Trace, thread: list[dict]) -> None:
    for cp in thread:
        store(t, "t", cp)
    for cp in [*thread[:2], {**thread[2], "writes": []}]:
        store(t, "middle", cp)


def old(v: int) -> Any:
    def run(t: Trace) -> None:
        with open(os.path.join(os.path.dirname(__file__), "old", f"v{v}.json"), encoding="utf-8") as f:
            thread = json.load(f)
        t.call("update", lambda: threads(t, thread))
        g = graph(t)
        t.state(g)
        t.history(g)
        t.run(g, Command(resume="yes"))
        t.history(g)
        t.run(g, {"steps": ["new"]})
        middle = t.config("middle")
        t.state(g, middle)
        t.run(g, None, middle)
        t.run(g, Command(resume="middle"), middle)
        t.history(g, middle)

    run.__name__ = f"old_v{v}"
    return run


for n in (1, 2, 3):
    scenario()(old(n))
