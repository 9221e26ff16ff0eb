"""Interrupts and their answers."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ..saver import RecordingSaver
from . import program


class _State(TypedDict, total=False):
    name: str
    age: int
    log: Annotated[list[str], operator.add]


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _one_node_asks_three_times(saver: RecordingSaver) -> None:
    def ask(state: _State) -> dict[str, Any]:
        name = interrupt("name?")
        age = interrupt({"question": "age?", "of": name})
        sure = interrupt(["sure?", name, age])
        return {"name": name, "age": age, "log": [f"sure: {sure}"]}

    graph = StateGraph(_State)
    graph.add_node("ask", ask)
    graph.add_node("end", lambda state: {"log": ["end"]})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "end")
    app = graph.compile(checkpointer=saver)

    config = _thread("three questions")
    app.invoke({"log": ["start"]}, config)
    app.get_state(config)
    for answer in ("Ada", 36, False):
        app.invoke(Command(resume=answer), config)
        app.get_state(config)
    list(app.get_state_history(config))


def _parallel_nodes_ask(saver: RecordingSaver) -> None:
    def asking(name: str) -> Any:
        def node(state: _State) -> dict[str, Any]:
            return {"log": [f"{name}: {interrupt(f'{name}?')}"]}

        return node

    graph = StateGraph(_State)
    for name in ("alpha", "beta", "gamma"):
        graph.add_node(name, asking(name))
        graph.add_edge(START, name)
        graph.add_edge(name, "join")
    graph.add_node("quiet", lambda state: {"log": ["quiet"], "age": 1})
    graph.add_edge(START, "quiet")
    graph.add_edge("quiet", "join")
    graph.add_node("join", lambda state: {"log": ["join"]})
    graph.add_edge("join", END)
    app = graph.compile(checkpointer=saver)

    config = _thread("resume map")
    app.invoke({"log": []}, config)
    waiting = app.get_state(config).interrupts
    # One answer, then the other two at once, by interrupt id.
    app.invoke(Command(resume={waiting[1].id: "second"}), config)
    rest = {one.id: f"answer to {one.value}" for one in (waiting[0], waiting[2])}
    app.invoke(Command(resume=rest), config)
    app.get_state(config)


def _command_moves_on(saver: RecordingSaver) -> None:
    def gate(state: _State) -> Command[Any]:
        verdict = interrupt("go?")
        return Command(update={"log": [f"gate {verdict}"]}, goto="left" if verdict else "right")

    graph = StateGraph(_State)
    graph.add_node("gate", gate, destinations=("left", "right"))
    graph.add_node("left", lambda state: {"log": ["left"]})
    graph.add_node("right", lambda state: {"log": ["right"]})
    graph.add_edge(START, "gate")
    app = graph.compile(checkpointer=saver)

    for verdict in (True, False):
        config = _thread(f"gate {verdict}")
        app.invoke({"log": []}, config)
        # The update travels beside the answer, as a write of no task.
        app.invoke(Command(resume=verdict, update={"name": "updated"}), config)
    config = _thread("goto")
    app.invoke({"log": []}, config)
    app.invoke(Command(goto="left", update={"log": ["jumped"]}), config)


def _static_breakpoints(saver: RecordingSaver) -> None:
    graph = StateGraph(_State)
    for name in ("one", "two", "three"):
        graph.add_node(name, lambda state, name=name: {"log": [name]})
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", "three")
    app = graph.compile(
        checkpointer=saver, interrupt_before=["two"], interrupt_after=["two"]
    )
    config = _thread("breakpoints")
    app.invoke({"log": []}, config)
    while app.get_state(config).next:
        app.invoke(None, config)


@program("interrupts", "Interrupts: several per node, in parallel, by resume map, with Command.")
def interrupts(saver: RecordingSaver) -> None:
    _one_node_asks_three_times(saver)
    _parallel_nodes_ask(saver)
    _command_moves_on(saver)
    _static_breakpoints(saver)
