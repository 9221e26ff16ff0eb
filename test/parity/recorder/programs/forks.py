"""Time travel: branches, edits, copies."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import StateUpdate

from ..saver import CountingSaver, RecordingSaver
from . import program


class _State(TypedDict, total=False):
    topic: str
    log: Annotated[list[str], operator.add]
    draft: str


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _graph(saver: RecordingSaver) -> Any:
    graph = StateGraph(_State)
    graph.add_node("outline", lambda state: {"log": [f"outline {state['topic']}"]})
    graph.add_node(
        "write", lambda state: {"draft": f"on {state['topic']}", "log": ["write"]}
    )
    graph.add_node("review", lambda state: {"log": [f"review {state['draft']}"]})
    graph.add_edge(START, "outline")
    graph.add_edge("outline", "write")
    graph.add_edge("write", "review")
    graph.add_edge("review", END)
    return graph.compile(checkpointer=saver)


def _before(app: Any, config: Any, node: str) -> Any:
    """The config of the oldest checkpoint from which ``node`` runs next."""
    found = [one for one in app.get_state_history(config) if one.next == (node,)]
    return found[-1].config


def _two_branches(saver: RecordingSaver, thread: str) -> None:
    """Two edits of one checkpoint, each run to its end."""
    app = _graph(saver)
    config = _thread(thread)
    app.invoke({"topic": "sea", "log": []}, config)
    base = _before(app, config, "write")
    left = app.update_state(base, {"topic": "left"}, as_node="outline")
    right = app.update_state(base, {"topic": "right, and longer"}, as_node="outline")
    app.invoke(None, left)
    app.invoke(None, right)
    # Both branches go on from their own heads, turn by turn.
    heads = [app.get_state(left), app.get_state(right)]
    for head in heads:
        app.invoke({"topic": "again " + head.values["topic"]}, head.config)
    app.invoke(None, base)
    list(app.get_state_history(config))


def _edits(saver: RecordingSaver) -> None:
    app = _graph(saver)
    config = _thread("edits")
    app.update_state(config, {"topic": "before any run"}, as_node="__start__")
    app.invoke(None, config)
    copied = app.update_state(_before(app, config, "review"), None, as_node="__copy__")
    app.invoke(None, copied)
    ended = app.update_state(_before(app, config, "write"), None, as_node="__end__")
    app.get_state(ended)
    app.update_state(config, {"topic": "as input"}, as_node="__input__")
    app.bulk_update_state(
        config,
        [
            [StateUpdate({"log": ["bulk one"]}, "outline")],
            [
                StateUpdate({"log": ["bulk two"]}, "write"),
                StateUpdate({"log": ["bulk three"]}, "review"),
            ],
        ],
    )
    app.invoke(None, config)


@program("forks", "Edits, copies and branches of one thread; versions as LangGraph mints them.")
def forks(saver: RecordingSaver) -> None:
    _two_branches(saver, "branches")
    _edits(saver)


@program(
    "forks_counted",
    "Two branches that reach the very same channel versions with different bytes.",
    saver=CountingSaver,
)
def forks_counted(saver: RecordingSaver) -> None:
    _two_branches(saver, "branches")
