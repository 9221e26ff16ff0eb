"""The scenarios, as LangGraph programs. scenarios.go has the same in Go."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.types import Command, Overwrite, RetryPolicy, Send, interrupt

from harness import Boom, Trace

SCENARIOS: dict[str, tuple[Any, tuple[str, ...]]] = {}


def scenario(*durabilities: str):
    def add(f: Any) -> Any:
        SCENARIOS[f.__name__] = (f, durabilities)
        return f

    return add


class Steps(TypedDict):
    steps: Annotated[list[str], operator.add]


def adds(*words: str):
    return lambda _: {"steps": list(words)}


def line(t: Trace, names: list[str], **compile: Any) -> Any:
    b = StateGraph(Steps)
    for n in names:
        b.add_node(n, adds(n))
    prev = START
    for n in names:
        b.add_edge(prev, n)
        prev = n
    b.add_edge(prev, END)
    return b.compile(checkpointer=t.saver, **compile)


@scenario()
def steps_line(t: Trace) -> None:
    g = line(t, ["a", "b"])
    t.run(g, {"steps": ["in"]})
    t.state(g)
    t.run(g, {"steps": ["again"]})
    t.run(g, None)
    t.history(g)
    t.run(g, None, t.config("fresh"))


@scenario()
def fan_out_join(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "b1", "b2", "b3", "c"):
        b.add_node(n, adds(n))
    b.add_edge(START, "a")
    b.add_edge("a", "b1")
    b.add_edge("a", "b2")
    b.add_edge("b1", "b3")
    b.add_edge(["b3", "b2"], "c")
    b.add_edge("c", END)
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, {"steps": ["x"]})


@scenario()
def deferred(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "b1", "b2", "b3"):
        b.add_node(n, adds(n))
    b.add_node("c", adds("c"), defer=True)
    b.add_edge(START, "a")
    b.add_edge("a", "b1")
    b.add_edge("a", "b2")
    b.add_edge("b1", "b3")
    b.add_edge("b2", "c")
    b.add_edge("b3", "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})


@scenario()
def deferred_join(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "b1", "b2", "b3"):
        b.add_node(n, adds(n))
    b.add_node("c", adds("c"), defer=True)
    b.add_edge(START, "a")
    b.add_edge("a", "b1")
    b.add_edge("a", "b2")
    b.add_edge("b1", "b3")
    b.add_edge(["b1", "b2"], "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})


@scenario()
def conditional_loop(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("b", adds("b"))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: "b" if len(s["steps"]) < 5 else END, ["b", END])
    b.add_edge("b", "a")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    limited = t.config("limited")
    limited["recursion_limit"] = 2
    t.run(g, {"steps": []}, limited)
    t.state(g, t.config("limited"))
    t.run(g, None, t.config("limited"))


@scenario()
def send_fan_out(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("plan", adds("plan"))
    b.add_node("side", adds("side"))
    b.add_node("work", lambda n: {"steps": [f"w{n}"]})
    b.add_node("end", adds("end"))
    b.add_edge(START, "plan")
    b.add_conditional_edges("plan", lambda _: [Send("work", i) for i in range(3)] + ["side"], ["work", "side"])
    b.add_edge("work", "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.history(g)


@scenario()
def command_goto(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", lambda _: Command(update={"steps": ["a"]}, goto=["b", Send("c", {"x": 1})]))
    b.add_node("b", lambda _: [Command(update={"steps": ["b1"]}, goto="d"), {"steps": ["b2"]}])
    b.add_node("c", lambda s: {"steps": [f"c{s['x']}"]})
    b.add_node("d", adds("d"))
    b.add_edge(START, "a")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, Command(goto="d", update={"steps": ["cmd"]}))
    t.run(g, Command())


def asker(*questions: str):
    def node(_: Any) -> Any:
        return {"steps": [interrupt(q) for q in questions]}

    return node


@scenario()
def interrupt_in_node(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("ask", asker("one?", "two?"))
    b.add_edge(START, "a")
    b.add_edge("a", "ask")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    t.state(g)
    t.run(g, Command(resume="1", update={"steps": ["upd"]}))
    s = t.state(g)
    t.run(g, Command(resume={s.interrupts[0].id: "2"}))
    t.state(g)
    t.history(g)


@scenario()
def interrupt_parallel(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", asker("a?"))
    b.add_node("b", adds("b"))
    b.add_node("c", asker("c?"))
    b.add_node("z", adds("z"))
    for n in "abc":
        b.add_edge(START, n)
        b.add_edge(n, "z")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    s = t.state(g)
    t.run(g, Command(resume="x"))
    t.run(g, Command(resume={s.interrupts[1].id: "C"}))
    t.state(g)
    t.run(g, Command(resume="A"))
    t.history(g)


@scenario()
def interrupt_sends(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("work", lambda n: {"steps": [interrupt(f"q{n}") + str(n)]})
    b.add_node("end", adds("end"))
    b.add_conditional_edges(START, lambda _: [Send("work", i) for i in range(3)], ["work"])
    b.add_edge("work", "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    s = t.state(g)
    t.run(g, Command(resume={i.id: "r" for i in s.interrupts}))


@scenario()
def breakpoints(t: Trace) -> None:
    g = line(t, ["a", "b", "c"], interrupt_before=["b"], interrupt_after=["b"])
    t.run(g, {"steps": []})
    t.state(g)
    t.run(g, None)
    t.state(g)
    t.run(g, None)
    every = line(t, ["a", "b"], interrupt_after="*")
    t.run(every, {"steps": []}, t.config("every"))
    t.run(every, None, t.config("every"))
    t.run(every, None, t.config("every"))
    goto = line(t, ["a", "b"], interrupt_before=["a"])
    t.run(goto, {"steps": []}, t.config("goto"))
    t.run(goto, Command(goto=["b"]), t.config("goto"))


@scenario()
def failure_and_resume(t: Trace) -> None:
    def flaky(_: Any) -> Any:
        if t.does("flaky") < 2:
            raise Boom("not yet")
        return {"steps": ["flaky"]}

    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("f", flaky)
    b.add_node("z", adds("z"))
    b.add_edge(START, "a")
    b.add_edge(START, "f")
    b.add_edge(["a", "f"], "z")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    s = t.state(g)
    t.state(g, s.config)
    t.run(g, None)
    t.state(g)
    t.history(g)


@scenario()
def concurrent_update(t: Trace) -> None:
    class S(TypedDict):
        x: int

    b = StateGraph(S)
    b.add_node("a", lambda _: {"x": 1})
    b.add_node("b", lambda _: {"x": 2})
    b.add_edge(START, "a")
    b.add_edge(START, "b")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"x": 0})


@scenario()
def overwrite(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("b", lambda _: {"steps": Overwrite(["b"])})
    b.add_node("c", adds("c"))
    b.add_node("d", adds("d"))
    b.add_edge(START, "a")
    b.add_edge("a", "b")
    b.add_edge("a", "c")
    b.add_edge(["b", "c"], "d")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})


def inner_graph(**compile: Any) -> Any:
    b = StateGraph(Steps)
    b.add_node("first", adds("first"))
    b.add_node("ask", lambda _: {"steps": [interrupt("?")]})
    b.add_node("last", adds("last"))
    b.add_edge(START, "first")
    b.add_edge("first", "ask")
    b.add_edge("ask", "last")
    return b.compile(**compile)


def outer_graph(t: Trace, inner: Any) -> Any:
    b = StateGraph(Steps)
    b.add_node("before", adds("before"))
    b.add_node("sub", inner)
    b.add_node("after", adds("after"))
    b.add_edge(START, "before")
    b.add_edge("before", "sub")
    b.add_edge("sub", "after")
    return b.compile(checkpointer=t.saver)


@scenario()
def subgraph_interrupt(t: Trace) -> None:
    g = outer_graph(t, inner_graph())
    t.run(g, {"steps": []})
    t.state(g)
    t.state(g, subgraphs=True)
    t.run(g, Command(resume="yes"))
    t.history(g)
    t.run(g, {"steps": ["2"]})
    t.run(g, Command(resume="again"))


@scenario()
def subgraph_stateful(t: Trace) -> None:
    g = outer_graph(t, inner_graph(checkpointer=True))
    t.run(g, {"steps": []})
    t.state(g, subgraphs=True)
    t.run(g, Command(resume="yes"))
    t.run(g, {"steps": ["2"]})
    t.run(g, Command(resume="again"))


@scenario()
def subgraph_plain(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i1", adds("i1"))
    inner.add_node("i2", adds("i2"))
    inner.add_edge(START, "i1")
    inner.add_edge("i1", "i2")
    g = outer_graph(t, inner.compile())
    t.run(g, {"steps": []})


@scenario()
def subgraph_called_twice(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i", adds("i"))
    inner.add_edge(START, "i")
    sub = inner.compile(checkpointer=True)

    def node(_: Any) -> Any:
        one = sub.invoke({"steps": ["x"]})
        two = sub.invoke({"steps": ["y"]})
        return {"steps": [str(len(one["steps"])), str(len(two["steps"]))]}

    b = StateGraph(Steps)
    b.add_node("call", node)
    b.add_edge(START, "call")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, {"steps": []})


@scenario()
def parent_command(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i", lambda _: Command(graph=Command.PARENT, update={"steps": ["up"]}, goto="jump"))
    inner.add_edge(START, "i")
    b = StateGraph(Steps)
    b.add_node("sub", inner.compile())
    b.add_node("jump", adds("jump"))
    b.add_edge(START, "sub")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})


@scenario("sync")
def time_travel(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("ask", asker("?"))
    b.add_node("c", adds("c"))
    b.add_edge(START, "a")
    b.add_edge("a", "ask")
    b.add_edge("ask", "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, Command(resume="one"))
    h = t.history(g)
    before = next(s for s in h if s.next == ("ask",))
    t.run(g, None, before.config)
    t.run(g, Command(resume="two"))
    forked = t.update(g, before.config, {"steps": ["forked"]}, as_node="a")
    t.run(g, None, forked)
    t.run(g, Command(resume="three"))
    t.run(g, None, h[0].config)
    t.run(g, {"steps": ["new"]}, before.config)
    t.history(g)


@scenario("sync")
def time_travel_subgraph(t: Trace) -> None:
    g = outer_graph(t, inner_graph(checkpointer=True))
    t.run(g, {"steps": []})
    t.run(g, Command(resume="yes"))
    t.run(g, {"steps": ["2"]})
    mid = t.state(g, subgraphs=True)
    t.run(g, Command(resume="again"))
    h = t.history(g)
    before = [s for s in h if s.next == ("sub",)][0]
    t.run(g, None, before.config)
    t.run(g, Command(resume="replayed"))
    t.run(g, None, mid.tasks[0].state.config)
    t.run(g, Command(resume="inner"))


@scenario("sync")
def updates(t: Trace) -> None:
    g = line(t, ["a", "b"])
    t.update(g, t.config("fresh"), {"steps": ["u"]}, as_node="a")
    t.state(g, t.config("fresh"))
    t.run(g, None, t.config("fresh"))
    t.run(g, {"steps": ["in"]})
    t.update(g, t.config(), {"steps": ["u"]})
    t.update(g, t.config(), None, as_node=END)
    t.update(g, t.config(), {"steps": ["i"]}, as_node="__input__")
    t.state(g)
    t.run(g, None)
    h = t.history(g)
    t.update(g, h[2].config, None, as_node="__copy__")
    t.update(g, t.config(), {"steps": ["x"]}, as_node="nobody")
    t.history(g)


@scenario()
def raw_breakpoint(t: Trace) -> None:
    one = NodeBuilder().subscribe_only("input").do(lambda x: x + 1).write_to("inbox").build()
    two = NodeBuilder().subscribe_only("inbox").do(lambda x: x + 1).write_to("output").build()
    g = Pregel(
        nodes={"one": one, "two": two},
        channels={"inbox": LastValue(int), "output": LastValue(int), "input": LastValue(int)},
        input_channels="input",
        output_channels="output",
        stream_channels=["inbox", "output"],
        checkpointer=t.saver,
        interrupt_after_nodes=["one"],
    )
    t.run(g, 2)
    t.state(g)
    t.run(g, None)
    t.run(g, 20)
    t.run(g, 3)
    t.run(g, None)
    t.history(g)


@scenario()
def raw_topic(t: Trace) -> None:
    one = NodeBuilder().subscribe_to("input").do(lambda d: d["input"] + 1).write_to("box", "out1").build()
    two = NodeBuilder().subscribe_to("input").do(lambda d: d["input"] * 10).write_to("box").build()
    three = NodeBuilder().subscribe_to("box").read_from("out1").do(lambda d: sum(d["box"]) + d["out1"]).write_to("output").build()
    g = Pregel(
        nodes={"one": one, "two": two, "three": three},
        channels={"box": Topic(int), "out1": LastValue(int), "output": LastValue(int), "input": EphemeralValue(int)},
        input_channels="input",
        output_channels="output",
        checkpointer=t.saver,
    )
    t.run(g, 2)
    t.run(g, 3)


@scenario()
def functional(t: Trace) -> None:
    @task
    def double(n: int) -> int:
        t.does("double", n)
        return n * 2

    @task
    def ask(q: str) -> str:
        return interrupt(q)

    @entrypoint(checkpointer=t.saver)
    def flow(n: int, *, previous: Any = None) -> Any:
        a = double(n).result()
        b = double(a).result()
        answer = ask("sure?").result()
        return entrypoint.final(value=f"{b}{answer}", save=(previous or 0) + b)

    t.run(flow, 1)
    t.state(flow)
    t.run(flow, Command(resume="!"))
    t.run(flow, 5)
    t.run(flow, Command(resume="?"))
    t.history(flow)
    t.show("ran", lambda: t.did("double"))
