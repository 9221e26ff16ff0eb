"""What ends up in metadata, and how it is found again."""

from __future__ import annotations

import uuid
from typing import Any, TypedDict

from langgraph.graph import START, StateGraph

from ..saver import RecordingSaver
from . import program


class _State(TypedDict, total=False):
    text: str


@program("metadata", "Scalars of config and metadata become filterable; clashes, types, NUL.")
def metadata(saver: RecordingSaver) -> None:
    graph = StateGraph(_State)
    graph.add_node("echo", lambda state: {"text": state["text"] + "!"})
    graph.add_edge(START, "echo")
    app = graph.compile(checkpointer=saver)

    for number, user in enumerate(("ada", "grace", "ada")):
        config: Any = {
            "configurable": {
                "thread_id": f"user thread {number}",
                "user_id": user,
                "attempt": number,
                "ratio": number / 4,
                "beta": user == "ada",
                "source": "configurable loses to the graph",
                "both": "configurable",
                "list is dropped": [1, 2],
                "__private": "dropped",
                "nul": "a\x00b",
            },
            "metadata": {
                "both": "metadata",
                "tenant": "north" if number % 2 else "south",
                "nested is dropped": {"a": 1},
                "langgraph_path": "excluded",
            },
            "run_id": uuid.UUID(int=number + 1),
        }
        for turn in range(2):
            app.invoke({"text": f"turn {turn}"}, config)

    # Filters where equality is subtle: 1, 1.0 and True are one value in Python.
    somewhere: Any = {"configurable": {"thread_id": "user thread 1"}}
    for query in (
        {"attempt": 1},
        {"attempt": 1.0},
        {"attempt": True},
        {"attempt": "1"},
        {"beta": 0},
        {"beta": False},
        {"beta": None},
        {"ratio": 0.25},
        {"nul": "ab"},
        {"nul": "a\x00b"},
        {"both": "metadata"},
        {"both": "configurable"},
        {"parents": {}},
        {"parents": {"": "x"}},
        {"no such key": None},
        {"step": -1.0},
    ):
        list(saver.list(somewhere, filter=query))
        list(saver.list(None, filter=query))
