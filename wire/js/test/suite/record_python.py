"""Records what LangGraph in Python gives to a saver, as calls of the wire:

    python record_python.py >python.json

It is run where langgraph is installed; the first line says which releases were used.
"""

import base64
import json
import operator
import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

calls: list[dict[str, Any]] = []


class Recorder(InMemorySaver):
    def typed(self, value):
        kind, data = self.serde.dumps_typed(value)
        return {"$typed": [kind, base64.b64encode(data).decode()]}

    def put(self, config, checkpoint, metadata, new_versions):
        conf = config["configurable"]
        calls.append({"method": "put", "params": {
            "thread": conf["thread_id"], "ns": conf.get("checkpoint_ns", ""), "parent": conf.get("checkpoint_id"),
            "checkpoint": {
                "v": checkpoint["v"], "id": checkpoint["id"], "ts": checkpoint["ts"],
                "values": {k: self.typed(v) for k, v in checkpoint["channel_values"].items() if k in new_versions},
                "versions": checkpoint["channel_versions"], "seen": checkpoint["versions_seen"],
                "updated": checkpoint.get("updated_channels"),
            },
            "metadata": self.typed(get_checkpoint_metadata(config, metadata)), "new_versions": new_versions,
        }})
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        conf = config["configurable"]
        calls.append({"method": "put_writes", "params": {
            "thread": conf["thread_id"], "ns": conf.get("checkpoint_ns", ""), "id": conf["checkpoint_id"],
            "task": task_id, "path": task_path, "writes": [[c, self.typed(v)] for c, v in writes],
        }})
        return super().put_writes(config, writes, task_id, task_path)


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


class Chat(TypedDict):
    messages: Annotated[list, add_messages]
    facts: Any


class Work(TypedDict):
    out: Annotated[list, operator.add]


FACTS = {
    "none": None, "bytes": b"\x00\xff", "big": 2**60, "wide": 2**40, "half": 0.5, "tuple": (1, "é😀"), "set": {1},
    "when": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc), "naive": datetime(2026, 1, 2, 3, 4, 5),
    "day": date(2026, 1, 2), "id": UUID("12345678123456781234567812345678"), "price": Decimal("1.50"),
    "path": Path("/a/b"), "pattern": re.compile("a+"), "color": Color.RED, "point": Point(1, 2.5), "keys": {1: "yes"},
}


def answer(state):
    n = len(state["messages"])
    if n == 1:
        call = {"name": "look", "args": {"for": "tea"}, "id": "call1"}
        return {"messages": [
            AIMessage("", id="a1", tool_calls=[call], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
            ToolMessage("found", tool_call_id="call1", id="t1"),
        ], "facts": FACTS}
    return {"messages": [AIMessage(f"answer {n}", id=f"a{n}")]}


def build(state, nodes, edges):
    graph = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for edge in edges:
        graph.add_edge(*edge)
    return graph


saver = Recorder()
chat = build(Chat, {"answer": answer}, [(START, "answer"), ("answer", END)]).compile(checkpointer=saver)
for n in range(2):
    chat.invoke({"messages": [HumanMessage(f"question {n}", id=f"h{n}")]}, {"configurable": {"thread_id": "chat"}})


def ask(_):
    return {"out": [interrupt("May I?")]}


def left(_):
    return {"out": ["left"]}


both = build(Work, {"left": left, "ask": ask}, [(START, "left"), (START, "ask")]).compile(checkpointer=saver)
both.invoke({"out": []}, {"configurable": {"thread_id": "both"}})

sends = build(Work, {"plan": lambda _: {}, "work": lambda s: {"out": [s["n"] * 10]}, "ask": ask}, [(START, "plan"), ("work", "ask")])
sends.add_conditional_edges("plan", lambda _: [Send("work", {"n": n}) for n in (1, 2)], ["work"])
sends.compile(checkpointer=saver, interrupt_before=["work"]).invoke({"out": []}, {"configurable": {"thread_id": "planned"}})
sends.compile(checkpointer=saver).invoke({"out": []}, {"configurable": {"thread_id": "sent"}})

inner = build(Work, {"first": lambda _: {"out": ["first"]}, "ask": ask}, [(START, "first"), ("first", "ask")]).compile()
outer = build(Work, {"inner": inner}, [(START, "inner")]).compile(checkpointer=saver)
outer.invoke({"out": []}, {"configurable": {"thread_id": "nested"}})

print(json.dumps({"releases": {name: version(name) for name in ("langgraph", "langgraph-checkpoint", "langchain-core")}}))
for call in calls:
    print(json.dumps(call, separators=(",", ":")))
