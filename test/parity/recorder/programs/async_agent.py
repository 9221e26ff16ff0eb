"""An agent on asyncio: steps whose tasks end out of order, in every durability mode."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ..saver import RecordingSaver
from . import program


class _State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    answer: str


def _graph(saver: RecordingSaver) -> Any:
    def slow(name: str, ticks: int, asks: bool = False, fails: bool = False) -> Any:
        failed = False

        async def node(state: _State) -> dict[str, Any]:
            nonlocal failed
            for _ in range(ticks):
                await asyncio.sleep(0)
            if fails and not failed:
                failed = True
                raise RuntimeError(f"{name} fails once")
            return {"log": [f"{name}: {interrupt(name)}" if asks else name]}

        return node

    graph = StateGraph(_State)
    nodes = {
        "search": slow("search", 30),
        "ask": slow("ask", 20, asks=True),
        "guess": slow("guess", 10),
        "look up": slow("look up", 0),
    }
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(START, name)
        graph.add_edge(name, "check")
    graph.add_node("check", slow("check", 5, fails=True))
    graph.add_node("say", lambda state: {"answer": ", ".join(state["log"])})
    graph.add_edge("check", "say")
    graph.add_edge("say", END)
    return graph.compile(checkpointer=saver)


@program("async_agent", "An agent on asyncio in sync, async and exit mode; an interrupt, a failure.")
def async_agent(saver: RecordingSaver) -> None:
    async def run(mode: Any) -> None:
        app = _graph(saver)
        config: Any = {"configurable": {"thread_id": f"async {mode}"}}
        await app.ainvoke({"log": []}, config, durability=mode)
        await app.aget_state(config)
        try:
            await app.ainvoke(Command(resume="an answer"), config, durability=mode)
        except RuntimeError:
            await app.ainvoke(None, config, durability=mode)
        async for _ in app.aget_state_history(config, limit=3):
            pass

    for mode in ("sync", "async", "exit"):
        asyncio.run(run(mode))
    asyncio.run(saver.adelete_thread("async exit"))
