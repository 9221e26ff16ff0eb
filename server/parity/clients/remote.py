"""RemoteGraph of LangGraph's Python against a server: alone, and as a node of a graph in Python.

Usage: remote.py BASE. The graphs are those of ../graphs_test.go.
"""

import asyncio
import operator
import sys
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client


class Path(TypedDict, total=False):
    path: Annotated[list[str], operator.add]


def config(base):
    return {"configurable": {"thread_id": get_sync_client(url=base).threads.create()["thread_id"]}}


def alone(base):
    g = RemoteGraph("counter", url=base)
    c = config(base)
    assert g.invoke({"n": 1}, c)["n"] == 112
    assert [list(u) for u in g.stream({"n": 0}, c, stream_mode="updates")] == [["one"], ["two"], ["three"]]
    modes = [part.event for part in g.stream({"n": 0}, c, stream_mode=["updates", "values"])]
    assert modes == ["values", "updates", "values", "updates", "values", "updates", "values"], modes
    s = g.get_state(c)
    assert s.values["n"] == 334 and s.next == (), s
    h = list(g.get_state_history(c, limit=3))
    assert len(h) == 3 and h[0].config == s.config
    assert g.get_state(h[1].config).values["n"] == h[1].values["n"]
    after = g.update_state(c, {"log": ["by hand"]}, as_node="three")
    assert g.get_state(after).values["log"][-1] == "by hand"
    assert "two" in g.get_graph().nodes
    fork = g.invoke(None, h[2].config)
    assert fork["n"] == 334, fork


def asks(base):
    g = RemoteGraph("agent", url=base)
    c = config(base)
    parts = list(g.stream({"messages": [("user", "weather in Rome")]}, c, stream_mode=["messages", "updates"]))
    assert parts[-1].data["__interrupt__"][0]["value"]["city"] == "Rome", parts[-1]
    assert g.get_state(c).tasks[0].interrupts[0].value["city"] == "Rome"
    end = g.invoke(Command(resume="sunny"), c)
    assert end["messages"][-1]["content"] == "You said: sunny", end


def inside(base):
    """A graph of Go as a node of one in Python: its question stops the graph around it."""
    b = StateGraph(Path)
    b.add_node("here", lambda s: {"path": ["here"]})
    b.add_node("there", RemoteGraph("nested", url=base))
    b.add_edge(START, "here")
    b.add_edge("here", "there")
    g = b.compile(checkpointer=InMemorySaver())
    c = {"configurable": {"thread_id": get_sync_client(url=base).threads.create()["thread_id"]}}
    got = g.invoke({"path": ["in"]}, c)
    assert got["__interrupt__"][0].value == "deep?", got
    assert g.get_state(c).next == ("there",)
    seen = [ns for ns, _ in g.stream({"path": ["again"]}, c, subgraphs=True, stream_mode="updates")]
    assert any(len(ns) > 1 for ns in seen), seen


async def without_blocking(base):
    g = RemoteGraph("counter", url=base)
    c = config(base)
    assert (await g.ainvoke({"n": 1}, c))["n"] == 112
    assert [list(u) async for u in g.astream({"n": 0}, c, stream_mode="updates")] == [["one"], ["two"], ["three"]]
    assert (await g.aget_state(c)).values["n"] == 223
    assert len([s async for s in g.aget_state_history(c, limit=2)]) == 2
    await g.aupdate_state(c, {"log": ["by hand"]})
    assert "two" in (await g.aget_graph()).nodes


for play in (alone, asks, inside):
    play(sys.argv[1])
    print(play.__name__)
asyncio.run(without_blocking(sys.argv[1]))
print("all")
