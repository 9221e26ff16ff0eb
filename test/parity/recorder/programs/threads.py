"""Many threads side by side, for listings over all of them."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import START, StateGraph

from ..saver import RecordingSaver
from . import program

_NAMES = [f"thread {number}" for number in range(12)] + [
    "a/b",
    "a:b|c",
    "..",
    "名前",
    "🜁",
    "with\nnewline",
    "x" * 300,
    "THREAD 1",
]


class _State(TypedDict, total=False):
    total: int


@program("threads", "Twenty threads with awkward names, their runs interleaved.")
def threads(saver: RecordingSaver) -> None:
    inner = StateGraph(_State)
    inner.add_node("double", lambda state: {"total": state["total"] * 2})
    inner.add_edge(START, "double")
    graph = StateGraph(_State)
    graph.add_node("inner", inner.compile(checkpointer=True))
    graph.add_edge(START, "inner")
    app = graph.compile(checkpointer=saver)
    for turn in range(2):
        for number, name in enumerate(_NAMES):
            config: Any = {"configurable": {"thread_id": name, "shard": number % 3}}
            app.invoke({"total": number + turn}, config)
    for limit in (3, 10, 1000):
        list(saver.list(None, limit=limit))
        list(saver.list(None, filter={"shard": 1, "source": "loop"}, limit=limit))
    saver.delete_thread("a:b|c")
    list(saver.list(None, filter={"step": -1}))
