"""What a run is asked to show, and what it is taken for; see scenarios.py."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from harness import Trace
from scenarios import scenario


class Two(TypedDict):
    a: int
    n: Annotated[list[str], operator.add]


def forked(t: Trace, **compile: Any) -> Any:
    """A node that writes a key twice, then one that asks beside one that writes
    nothing, and a graph inside."""
    inner = StateGraph(Two)
    inner.add_node("deep", lambda s: {"a": 7, "n": ["deep"]})
    inner.add_edge(START, "deep")
    b = StateGraph(Two)
    b.add_node("twice", lambda s: Command(update=[("n", ["one"]), ("n", ["two"]), ("a", 1)]))
    b.add_node("asks", lambda s: {"n": [interrupt("q")]})
    b.add_node("quiet", lambda s: None)
    b.add_node("sub", inner.compile())
    b.add_edge(START, "twice")
    b.add_edge("twice", "asks")
    b.add_edge("twice", "quiet")
    b.add_edge("asks", "sub")
    return b.compile(checkpointer=t.saver, **compile)


@scenario()
def output_keys(t: Trace) -> None:
    g = forked(t)
    for thread, keys in {"one": "n", "list": ["n"], "other": ["a"], "single": "a"}.items():
        t.run(g, {"a": 0, "n": ["in"]}, t.config(thread), output_keys=keys)
        t.run(g, Command(resume="yes"), t.config(thread), output_keys=keys)
    t.run(g, None, t.config("one"), output_keys=["a", "n"])


@scenario()
def run_goes_on(t: Trace) -> None:
    g = forked(t)
    c = t.config()
    c["run_id"] = "11111111-2222-3333-4444-555555555555"
    c["metadata"] = {"run_id": c["run_id"]}  # which is what is stored
    t.run(g, {"a": 0, "n": ["in"]}, c)
    t.run(g, {"a": 5, "n": ["not taken"]}, c)
    t.run(g, Command(resume="yes"), c)
    t.run(g, {"a": 6, "n": ["not taken either"]}, c)
    c = t.config()
    c["run_id"] = "11111111-2222-3333-4444-666666666666"
    c["metadata"] = {"run_id": c["run_id"]}
    t.run(g, {"a": 6, "n": ["taken"]}, c)
    t.state(g)


@scenario()
def breakpoints_everywhere(t: Trace) -> None:
    g = forked(t, interrupt_before="*", interrupt_after="*")
    t.run(g, {"a": 0, "n": ["in"]})
    t.state(g)
    for _ in range(4):
        t.run(g, None)
        t.state(g)
    t.run(g, Command(resume="yes"))
    t.run(g, None)
    t.run(g, None)
    t.state(g)


@scenario()
def history_queries(t: Trace) -> None:
    g = forked(t)
    t.run(g, {"a": 0, "n": ["in"]})
    t.run(g, Command(resume="yes"))
    t.run(g, {"a": 5})
    third = list(g.get_state_history(t.config()))[2].config if t.durability == "sync" else None
    for query in [
        {"filter": {"source": "input"}}, {"filter": {"step": 1}}, {"limit": 2}, {"before": third}, {"before": third, "limit": 1},
        {"filter": {"source": "loop"}, "limit": 1}, {"filter": {"source": "nothing"}}, {"filter": {"source": "loop", "step": 2}},
    ]:
        t.queried(g, **query)


def seen(state: Any, config: RunnableConfig) -> list[str]:
    """The keys of the state that ToolNode finds for a call that was sent to it."""
    read = config["configurable"].get("__pregel_read_state")
    return sorted(f"{k}={v}" for k, v in (read() if read else state).items())


@scenario()
def sent_reads_state(t: Trace) -> None:
    """A task of a Send reads the keys that its node gets from an edge; a graph inside it, its own."""

    class State(TypedDict):
        a: int
        b: str
        secret: int
        steps: Annotated[list[str], operator.add]

    class Narrow(TypedDict):
        b: str
        secret: int

    class Inner(TypedDict):
        c: int
        steps: Annotated[list[str], operator.add]

    inner = StateGraph(Inner)
    inner.add_node("deep", lambda s, config: {"steps": [f"deep: {seen({'c': s['c']}, config)}"]})
    inner.add_edge(START, "deep")
    b = StateGraph(State)
    b.add_node("first", lambda s: {"a": 2, "secret": 5, "steps": ["first"]})
    b.add_node("all", lambda s, config: {"steps": [f"all: {[k for k in seen(s, config) if not k.startswith('steps')]}"]})
    b.add_node("narrow", lambda s, config: {"steps": [f"narrow: {seen(s, config)}"]}, input_schema=Narrow)
    b.add_node("sub", inner.compile())
    b.add_edge(START, "first")
    b.add_conditional_edges("first", lambda s: [Send("all", {"x": 1}), Send("narrow", {"x": 2}), Send("sub", {"c": 3})], ["all", "narrow", "sub"])
    t.run(b.compile(checkpointer=t.saver), {"a": 1, "b": "in", "steps": []})
