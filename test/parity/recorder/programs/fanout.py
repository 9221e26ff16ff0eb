"""Map-reduce with Send, on one thread and on asyncio."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from ..saver import RecordingSaver
from . import program

_WIDTH = 20


class _State(TypedDict, total=False):
    items: list[int]
    squares: Annotated[list[int], operator.add]
    total: int


class _Item(TypedDict):
    number: int


def _scatter(state: _State) -> list[Send]:
    return [Send("square", {"number": number}) for number in state["items"]]


def _sum(state: _State) -> dict[str, Any]:
    return {"total": sum(state["squares"])}


def _graph(saver: RecordingSaver, square: Any) -> Any:
    graph = StateGraph(_State)
    graph.add_node("plan", lambda state: {"squares": []})
    graph.add_node("square", square)
    graph.add_node("sum", _sum)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", _scatter, ["square"])
    graph.add_edge("square", "sum")
    graph.add_edge("sum", END)
    return graph.compile(checkpointer=saver)


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


@program("fanout", f"Map-reduce: {_WIDTH} tasks of one node by Send, twice on one thread.")
def fanout(saver: RecordingSaver) -> None:
    app = _graph(saver, lambda item: {"squares": [item["number"] ** 2]})
    app.invoke({"items": list(range(_WIDTH))}, _thread("wide"))
    app.invoke({"items": [_WIDTH, 2**31, -(2**31)]}, _thread("wide"))
    app.invoke({"items": []}, _thread("empty"))


@program(
    "fanout_async",
    "The same on asyncio, with tasks ending in another order than they began.",
)
def fanout_async(saver: RecordingSaver) -> None:
    async def square(item: _Item) -> dict[str, Any]:
        # Later tasks give way less often, so they end first.
        for _ in range((item["number"] * 7) % _WIDTH):
            await asyncio.sleep(0)
        if item["number"] == 13 and failing:
            raise ValueError("thirteen")
        return {"squares": [item["number"] ** 2]}

    async def run() -> None:
        nonlocal failing
        await app.ainvoke({"items": list(range(_WIDTH))}, _thread("shuffled"))
        failing = True
        try:
            await app.ainvoke({"items": list(range(_WIDTH))}, _thread("one fails"))
        except ValueError:
            pass
        # What the others had written is on the checkpoint; only the rest runs.
        failing = False
        await app.ainvoke(None, _thread("one fails"))

    failing = False
    app = _graph(saver, square)
    asyncio.run(run())
