"""Threads that are deleted and begin again under the same id."""

from __future__ import annotations

from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from ..audit import audit
from ..saver import RecordingSaver
from . import program


@program("rebirth", "delete_thread, then a new life of the same thread; neighbours untouched.")
def rebirth(saver: RecordingSaver) -> None:
    lives = 0

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"life {lives}, {len(state['messages'])} messages")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    app = graph.compile(checkpointer=saver)

    threads = ["phoenix", "phoenix 2", "neighbour"]
    for lives in (1, 2, 3):
        for thread in threads:
            config: Any = {"configurable": {"thread_id": thread}}
            for turn in range(2):
                app.invoke({"messages": [("user", f"turn {turn}")]}, config)
        saver.delete_thread("phoenix")
        saver.delete_thread("never existed")
        audit(saver)
        if lives == 2:
            saver.delete_thread("phoenix 2")
        elif lives == 3:
            # The last life is short and stays.
            app.invoke({"messages": [("user", "one more")]}, {"configurable": {"thread_id": "phoenix"}})
