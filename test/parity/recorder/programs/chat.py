"""Chats whose state grows: the workload checkpointers suffer most from."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from ..saver import RecordingSaver
from . import program

_TURNS = 44

_TOPICS = ("logs", "pages", "locks", "clocks", "queues", "caches", "trees")


def _reply(turn: int) -> str:
    topic = _TOPICS[turn % len(_TOPICS)]
    return f"Answer {turn}: keep your {topic} short, and write down why. " + topic * (turn % 5)


class _State(MessagesState):
    turns: int


def _chat_graph(saver: RecordingSaver) -> Any:
    model = FakeListChatModel(responses=[_reply(turn) for turn in range(_TURNS)])

    def answer(state: _State) -> dict[str, Any]:
        opening = SystemMessage("You are terse.", id="system")
        return {"messages": [model.invoke([opening, *state["messages"]])]}

    def count(state: _State) -> dict[str, Any]:
        return {"turns": state.get("turns", 0) + 1}

    graph = StateGraph(_State)
    graph.add_node("answer", answer)
    graph.add_node("count", count)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "count")
    graph.add_edge("count", END)
    return graph.compile(checkpointer=saver)


@program("chat", f"A chat of {_TURNS} turns in one thread; messages only ever grow.")
def chat(saver: RecordingSaver) -> None:
    app = _chat_graph(saver)
    config: Any = {"configurable": {"thread_id": "chat"}}
    for turn in range(_TURNS):
        question = f"Question {turn}: what about {_TOPICS[(turn * 3) % len(_TOPICS)]}?"
        app.invoke({"messages": [HumanMessage(question)]}, config, durability="sync")
