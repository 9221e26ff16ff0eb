"""Graphs inside graphs: their namespaces, their own state, interrupts within."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ..saver import RecordingSaver
from . import program


class _State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    seen: int


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _inner(name: str, asks: bool, **compile_options: Any) -> Any:
    def work(state: _State) -> dict[str, Any]:
        answer = interrupt(f"{name}?") if asks else "quiet"
        return {"log": [f"{name}: {answer}"], "seen": state.get("seen", 0) + 1}

    graph = StateGraph(_State)
    graph.add_node("prepare", lambda state: {"log": [f"{name} prepares"]})
    graph.add_node("work", work)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "work")
    return graph.compile(**compile_options)


def _around(node: Any, name: str, **compile_options: Any) -> Any:
    graph = StateGraph(_State)
    graph.add_node("before", lambda state: {"log": [f"before {name}"]})
    graph.add_node(name, node)
    graph.add_node("after", lambda state: {"log": [f"after {name}"]})
    graph.add_edge(START, "before")
    graph.add_edge("before", name)
    graph.add_edge(name, "after")
    graph.add_edge("after", END)
    return graph.compile(**compile_options)


def _three_levels(saver: RecordingSaver) -> None:
    middle = _around(_inner("leaf", asks=True), "leaf")
    app = _around(middle, "middle", checkpointer=saver)
    config = _thread("three levels")
    app.invoke({"log": ["start"]}, config)
    app.get_state(config, subgraphs=True)
    app.invoke(Command(resume="granted"), config)
    app.get_state(config, subgraphs=True)
    list(app.get_state_history(config))


def _state_per_thread(saver: RecordingSaver) -> None:
    """A nested graph that keeps its own state from one run to the next."""
    app = _around(_inner("counter", asks=False, checkpointer=True), "counter", checkpointer=saver)
    config = _thread("stateful")
    for turn in range(4):
        app.invoke({"log": [f"turn {turn}"]}, config)
    app.get_state(config, subgraphs=True)


def _called_from_a_node(saver: RecordingSaver) -> None:
    """Two graphs invoked by one node; the second one asks."""
    quiet, asking = _inner("first", asks=False), _inner("second", asks=True)

    def node(state: _State) -> dict[str, Any]:
        one = quiet.invoke({"log": []})
        two = asking.invoke({"log": []})
        return {"log": one["log"] + two["log"]}

    app = _around(node, "caller", checkpointer=saver)
    config = _thread("called")
    app.invoke({"log": []}, config)
    app.get_state(config, subgraphs=True)
    app.invoke(Command(resume="yes"), config)


def _travel_into_a_subgraph(saver: RecordingSaver) -> None:
    """Run again from a checkpoint of the nested graph."""
    app = _around(_inner("inner", asks=True), "inner", checkpointer=saver)
    config = _thread("travel")
    app.invoke({"log": []}, config)
    nested = app.get_state(config, subgraphs=True).tasks[0].state
    app.update_state(nested.config, {"log": ["edited inside"]})
    app.invoke(Command(resume="after the edit"), config)
    history = list(app.get_state_history(config))
    waiting = next(one for one in history if one.next == ("inner",))
    app.invoke(None, waiting.config)


@program("subgraphs", "Nested graphs: three levels, stateful, called from a node, edited within.")
def subgraphs(saver: RecordingSaver) -> None:
    _three_levels(saver)
    _state_per_thread(saver)
    _called_from_a_node(saver)
    _travel_into_a_subgraph(saver)
