"""Edges, packets, streams and graphs in graphs; see scenarios.py."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.channels import LastValue
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.types import Command, Overwrite, Send

from harness import Trace
from scenarios import Steps, adds, asker, line, outer_graph, scenario
from scenarios_deep import counter
from scenarios_state import in_line


@scenario()
def edge_beside_join(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "r1", "r2", "slow", "qa"):
        b.add_node(n, adds(n))
    b.add_edge(START, "a")
    b.add_edge("a", "r1")
    b.add_edge("a", "slow")
    b.add_edge("slow", "r2")
    b.add_edge(["r1", "r2"], "qa")
    b.add_edge("a", "qa")
    t.run(b.compile(checkpointer=t.saver), {"steps": []})


@scenario()
def join_in_loop(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "r1", "r2", "qa"):
        b.add_node(n, adds(n))
    b.add_edge(START, "a")
    b.add_edge("a", "r1")
    b.add_edge("a", "r2")
    b.add_edge(["r1", "r2"], "qa")
    b.add_conditional_edges("qa", lambda s: "a" if len(s["steps"]) < 8 else END, ["a", END])
    t.run(b.compile(checkpointer=t.saver), {"steps": []})


@scenario()
def branch_at_start(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "b", "c"):
        b.add_node(n, adds(n))
    b.add_conditional_edges(START, lambda s: ["a", "b"] if len(s["steps"]) == 1 else "c", ["a", "b", "c"])
    b.add_conditional_edges("a", lambda s: "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["1"]})
    t.run(g, {"steps": ["1"]})
    t.history(g)


@scenario()
def limits(t: Trace) -> None:
    g = line(t, ["a", "b"])
    for n in (1, 2):
        c = t.config(str(n))
        c["recursion_limit"] = n
        t.run(g, {"steps": []}, c)
        t.run(g, None, t.config(str(n)))
    c = t.config("late")
    c["recursion_limit"] = 2
    for _ in range(2):
        t.run(g, {"steps": []}, c)


@scenario()
def planner(t: Trace) -> None:
    plan: list[Any] = ["s1", ["s2", "s3"], "s4"]

    def planner(_: Any) -> Any:
        if not plan:
            return Command(update={"steps": ["done"]})
        return Command(goto=plan.pop(0), update={"steps": ["plan"]})

    b = StateGraph(Steps)
    b.add_node("planner", planner)
    for n in ("s1", "s2", "s3", "s4"):
        b.add_node(n, adds(n))
        b.add_edge(n, "planner")
    b.add_edge(START, "planner")
    t.run(b.compile(checkpointer=t.saver), {"steps": []})


@scenario()
def mixed_returns(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", lambda _: [Command(update={"steps": ["a1"]}, goto="c"), {"steps": ["a2"]}])
    b.add_node("b", lambda _: [{"steps": ["b1"]}, Command(update={"steps": ["b2"]})])
    b.add_node("c", adds("c"))
    b.add_edge(START, "a")
    b.add_edge(START, "b")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.history(g)


@scenario()
def root_state(t: Trace) -> None:
    b = StateGraph(Annotated[str, operator.add])  # type: ignore[type-var]
    b.add_node("a", lambda _: [Command(update="a1"), Command(update="a2")])
    b.add_node("b", lambda _: "b")
    g = in_line(b, "a", "b").compile(checkpointer=t.saver)
    t.run(g, "")
    t.state(g)
    h = t.history(g)
    for s in h[:3]:
        t.run(g, None, s.config)


@scenario()
def sends_in_sequence(t: Trace) -> None:
    def node(name: str, *out: Any) -> Any:
        def f(s: Any) -> Any:
            word = name if isinstance(s, dict) else f"{name}|{s}"
            return [{"steps": [word]}, *out] if out else {"steps": [word]}

        return f

    def two(s: Any) -> Any:
        if s in (1, 2):
            return Command(goto=Send("2", s + 2), update={"steps": [f"2!{s}"]})
        return {"steps": [f"2|{s}"]}

    b = StateGraph(Steps)
    b.add_node("1", node("1"))
    b.add_node("1.1", node("1.1", Command(goto=[Send("2", 7)])))
    b.add_node("2", two)
    b.add_node("3", node("3"))
    b.add_node("3.1", node("3.1"))
    b.add_edge(START, "1")
    b.add_edge(START, "1.1")
    b.add_conditional_edges("1", lambda _: [Send("2", 1), "3.1", Send("2", 2)], ["2", "3.1"])
    b.add_edge("2", "3")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["0"]})
    t.history(g)


@scenario()
def send_then_edge(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("1", adds("1"))
    b.add_node("2", adds("2"))
    b.add_node("3", adds("3"))
    b.add_conditional_edges("1", lambda _: [Send("2", {}), Send("2", {})], ["2"])
    b.add_edge(START, "1")
    b.add_edge("2", "3")
    g = b.compile(checkpointer=t.saver, interrupt_before=["2"])
    t.run(g, {"steps": ["0"]})
    t.state(g)
    t.run(g, None)


@scenario()
def raw_two_outputs(t: Trace) -> None:
    one = NodeBuilder().subscribe_only("input").do(lambda x: x + 1).write_to("output", "between").build()
    two = NodeBuilder().subscribe_only("between").do(lambda x: x + 1).write_to("output").build()
    g = Pregel(
        nodes={"one": one, "two": two},
        channels={"input": LastValue(int), "between": LastValue(int), "output": LastValue(int)},
        input_channels="input",
        output_channels="output",
        stream_channels=["output", "between"],
        checkpointer=t.saver,
    )
    t.run(g, 2)
    quiet = Pregel(
        nodes={"one": NodeBuilder().subscribe_only("input").do(lambda x: x + 1).build()},
        channels={"input": LastValue(int), "output": LastValue(int)},
        input_channels="input",
        output_channels="output",
        checkpointer=t.saver,
    )
    t.run(quiet, 2, t.config("quiet"))


@scenario()
def two_overwrites(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in "ab":
        b.add_node(n, lambda _, n=n: {"steps": Overwrite([n])})
        b.add_edge(START, n)
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})


@scenario()
def debug_events(t: Trace) -> None:
    g = outer_graph(t, in_line(asking(), "ask").compile())
    t.run(g, {"steps": []}, modes=["debug", "values"])
    t.run(g, Command(resume="yes"), modes=["debug", "updates"])


def asking() -> Any:
    b = StateGraph(Steps)
    b.add_node("ask", asker("?"))
    return b


@scenario("sync")
def labelled_run(t: Trace) -> None:
    c = t.config(test_config_1="foo", __hidden="no", n=3)
    c["metadata"] = {"who": "me"}
    g = outer_graph(t, counter())
    t.run(g, {"steps": []}, c)


@scenario()
def parent_goto(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i1", adds("lost"))
    inner.add_node("i2", lambda _: Command(graph=Command.PARENT, goto="b", update={"steps": ["up"]}))
    sub = in_line(inner, "i1", "i2").compile()
    b = StateGraph(Steps)
    b.add_node("a", sub)
    b.add_node("b", adds("b"))
    b.add_edge(START, "a")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["init"]})
    t.history(g)


@scenario()
def parent_goto_deep(t: Trace) -> None:
    low = StateGraph(Steps)
    low.add_node("l", lambda _: Command(graph=Command.PARENT, goto="m3", update={"steps": ["low"]}))
    low.add_edge(START, "l")
    mid = StateGraph(Steps)
    mid.add_node("m1", adds("m1"))
    mid.add_node("m2", low.compile())
    mid.add_node("m3", adds("m3"))
    in_line(mid, "m1", "m2")
    b = StateGraph(Steps)
    b.add_node("c1", adds("c1"))
    b.add_node("c2", mid.compile())
    g = in_line(b, "c1", "c2").compile(checkpointer=t.saver)
    t.run(g, {"steps": ["init"]})
    t.history(g)


@scenario()
def stateful_apart(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("fruit", "veggie"):
        w = StateGraph(Steps)
        w.add_node("agent", counter(checkpointer=True))
        w.add_edge(START, "agent")
        b.add_node(n, w.compile(checkpointer=True))
    g = in_line(b, "fruit", "veggie").compile(checkpointer=t.saver)
    t.run(g, {"steps": ["1"]})
    t.run(g, {"steps": ["2"]})
    t.history(g)


@scenario()
def called_stateless(t: Trace) -> None:
    sub = in_line(asking(), "ask").compile()

    def node(s: Any) -> Any:
        r = sub.invoke({"steps": s["steps"][-1:]})
        return {"steps": ["+".join(r["steps"])]}

    b = StateGraph(Steps)
    b.add_node("call", node)
    b.add_edge(START, "call")
    g = b.compile(checkpointer=t.saver)
    for w in ("apples", "pears"):
        t.run(g, {"steps": [w]})
        t.run(g, Command(resume="yes"))
    t.history(g)


@scenario()
def subgraph_of_other_keys(t: Trace) -> None:
    class Inner(TypedDict):
        steps: Annotated[list[str], operator.add]
        note: str

    class Outer(TypedDict):
        steps: Annotated[list[str], operator.add]
        shown: str

    inner = StateGraph(Inner)
    inner.add_node("i", lambda _: {"note": "private"})
    inner.add_node("j", lambda s: {"steps": [s["note"]]})
    b = StateGraph(Outer)
    b.add_node("a", lambda _: {"shown": "x"})
    b.add_node("sub", in_line(inner, "i", "j").compile())
    b.add_node("z", lambda s: {"shown": s["shown"] + str(len(s["steps"]))})
    t.run(in_line(b, "a", "sub", "z").compile(checkpointer=t.saver), {"steps": ["in"]})
