"""Nodes that fail, and what is left for the retry."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from ..saver import RecordingSaver
from . import program


class _State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


class _Flaky:
    """Fails the first ``times`` times it is called."""

    def __init__(self, name: str, times: int) -> None:
        self.name, self.left = name, times

    def __call__(self, state: _State) -> dict[str, Any]:
        if self.left > 0:
            self.left -= 1
            raise RuntimeError(f"{self.name} fails, {self.left} to go")
        return {"log": [self.name]}


def _parallel(saver: RecordingSaver, flaky: _Flaky, **node_options: Any) -> Any:
    graph = StateGraph(_State)
    graph.add_node("steady", lambda state: {"log": ["steady"]})
    graph.add_node("flaky", flaky, **node_options)
    graph.add_node("other", lambda state: {"log": ["other"]})
    graph.add_node("join", lambda state: {"log": ["join"]})
    for name in ("steady", "flaky", "other"):
        graph.add_edge(START, name)
        graph.add_edge(name, "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=saver)


def _until_it_works(app: Any, config: Any, given: Any, **options: Any) -> None:
    for _ in range(5):
        try:
            app.invoke(given, config, **options)
            return
        except RuntimeError:
            app.get_state(config)
            given = None
    raise AssertionError("the node was to succeed by now")


def _handled(saver: RecordingSaver) -> None:
    """A failure that another node takes over."""

    def fails(state: _State) -> dict[str, Any]:
        raise RuntimeError("for the handler")

    graph = StateGraph(_State)
    graph.add_node("fails", fails, error_handler=lambda state: {"log": ["handled"]})
    graph.add_node("beside", lambda state: {"log": ["beside"]})
    graph.add_edge(START, "fails")
    graph.add_edge(START, "beside")
    app = graph.compile(checkpointer=saver)
    app.invoke({"log": []}, _thread("handled"))


def _branch_fails(saver: RecordingSaver) -> None:
    """The node's writes exist, then its conditional edge raises."""
    tries = 0

    def route(state: _State) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("no route")
        return END

    graph = StateGraph(_State)
    graph.add_node("node", lambda state: {"log": ["node"]})
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", route)
    app = graph.compile(checkpointer=saver)
    _until_it_works(app, _thread("branch fails"), {"log": []})


@program("failures", "Failing nodes beside working ones, retried by hand and by policy.")
def failures(saver: RecordingSaver) -> None:
    app = _parallel(saver, _Flaky("flaky", 3))
    _until_it_works(app, _thread("by hand"), {"log": ["start"]})
    app = _parallel(saver, _Flaky("flaky", 2))
    _until_it_works(app, _thread("on exit"), {"log": ["start"]}, durability="exit")
    policy = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=3, retry_on=RuntimeError)
    app = _parallel(saver, _Flaky("flaky", 2), retry_policy=policy)
    app.invoke({"log": ["start"]}, _thread("by policy"))
    # New input while a step is unfinished: the old step's writes are left behind.
    app = _parallel(saver, _Flaky("flaky", 1))
    try:
        app.invoke({"log": ["first"]}, _thread("abandoned"))
    except RuntimeError:
        app.invoke({"log": ["second"]}, _thread("abandoned"))
    _handled(saver)
    _branch_fails(saver)
