"""Graphs in graphs, and time travel into them; see scenarios.py."""

from typing import Any

from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from harness import Boom, Trace
from scenarios import Steps, adds, asker, inner_graph, line, outer_graph, scenario


def counter(**compile: Any) -> Any:
    b = StateGraph(Steps)
    b.add_node("count", lambda s: {"steps": [str(len(s["steps"]))]})
    b.add_edge(START, "count")
    return b.compile(**compile)


@scenario("sync")
def replay_stateful_loop(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("sub", counter(checkpointer=True))
    b.add_node("next", adds("n"))
    b.add_edge(START, "sub")
    b.add_edge("sub", "next")
    b.add_conditional_edges("next", lambda s: "sub" if len(s["steps"]) < 12 else END, ["sub", END])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["x"]})
    t.run(g, {"steps": ["y"]})
    h = t.history(g)
    subs = [s for s in h if s.next == ("sub",)]
    t.run(g, None, subs[-1].config)
    t.run(g, None, subs[1].config)
    fork = t.update(g, subs[0].config, {"steps": ["f"]}, as_node="next")
    t.run(g, None, fork)


@scenario("sync")
def replay_parallel_stateful(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("one", counter(checkpointer=True))
    b.add_node("two", counter(checkpointer=True))
    b.add_edge(START, "one")
    b.add_edge(START, "two")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["x"]})
    t.run(g, {"steps": ["y"]})
    before = [s for s in t.history(g) if set(s.next) == {"one", "two"}][0]
    t.run(g, None, before.config)
    t.run(g, {"steps": ["z"]})


@scenario("sync")
def three_level_stateful(t: Trace) -> None:
    mid = StateGraph(Steps)
    mid.add_node("m", adds("m"))
    mid.add_node("low", inner_graph(checkpointer=True))
    mid.add_edge(START, "m")
    mid.add_edge("m", "low")
    b = StateGraph(Steps)
    b.add_node("mid", mid.compile(checkpointer=True))
    b.add_node("end", adds("end"))
    b.add_edge(START, "mid")
    b.add_edge("mid", "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["1"]})
    s = t.state(g, subgraphs=True)
    t.run(g, Command(resume="one"))
    t.run(g, None, s.tasks[0].state.tasks[0].state.config)
    t.run(g, Command(resume="low again"))
    t.run(g, None, s.tasks[0].state.config)
    t.run(g, Command(resume="mid again"))
    t.run(g, {"steps": ["2"]})
    t.run(g, Command(resume="two"))
    t.history(g)


@scenario()
def stateful_reentered(t: Trace) -> None:
    sub = inner_graph(checkpointer=True)

    def node(s: Any) -> Any:
        return {"steps": [str(len(sub.invoke({"steps": ["go"]})["steps"]))]}

    b = StateGraph(Steps)
    b.add_node("call", node)
    b.add_edge(START, "call")
    b.add_conditional_edges("call", lambda s: "call" if len(s["steps"]) < 3 else END, ["call", END])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    t.run(g, Command(resume="a"))
    t.run(g, Command(resume="b"))


@scenario()
def parent_command_from_function(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i", lambda _: Command(graph=Command.PARENT, goto="jump", update={"steps": ["up"]}))
    inner.add_edge(START, "i")
    sub = inner.compile()
    plain = counter()

    def node(_: Any) -> Any:
        plain.invoke({"steps": []})
        sub.invoke({"steps": []})
        raise AssertionError("unreachable")

    b = StateGraph(Steps)
    b.add_node("call", node)
    b.add_node("jump", adds("jump"))
    b.add_edge(START, "call")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})


@scenario()
def child_with_own_thread(t: Trace) -> None:
    sub = counter(checkpointer=t.saver)

    def node(_: Any) -> Any:
        r = sub.invoke({"steps": ["c"]}, {"configurable": {"thread_id": "child"}}, durability=t.durability)
        return {"steps": [str(len(r["steps"]))]}

    b = StateGraph(Steps)
    b.add_node("call", node)
    b.add_edge(START, "call")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, {"steps": []})


@scenario("exit")  # LangGraph fails in sync: its loop waits for a save there is none of
def subgraph_off(t: Trace) -> None:
    t.run(outer_graph(t, counter(checkpointer=False)), {"steps": []})


@scenario()
def nested_breakpoints(t: Trace) -> None:
    sub = line(t, ["i1", "i2"], interrupt_before=["i2"])
    b = StateGraph(Steps)
    b.add_node("inner", sub)
    b.add_node("side", adds("side"))
    b.add_node("end", adds("end"))
    b.add_edge(START, "inner")
    b.add_edge(START, "side")
    b.add_edge(["inner", "side"], "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g, subgraphs=True)
    t.run(g, None)
    t.history(g)


@scenario()
def two_questions_in_subgraph(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("q1", asker("q1?"))
    inner.add_node("q2", asker("q2?", "q3?"))
    inner.add_edge(START, "q1")
    inner.add_edge("q1", "q2")
    sub = inner.compile()
    b = StateGraph(Steps)
    b.add_node("call", lambda s: sub.invoke({"steps": []}))
    b.add_edge(START, "call")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for a in "xyz":
        t.run(g, Command(resume=a))
    t.history(g)


@scenario()
def failing_subgraph(t: Trace) -> None:
    def flaky(_: Any) -> Any:
        if t.does("flaky") == 1:
            raise Boom("inside")
        return {"steps": ["flaky"]}

    inner = StateGraph(Steps)
    inner.add_node("ok", adds("ok"))
    inner.add_node("flaky", flaky)
    inner.add_node("z", adds("z"))
    inner.add_edge(START, "ok")
    inner.add_edge("ok", "flaky")
    inner.add_edge("flaky", "z")
    g = outer_graph(t, inner.compile())
    t.run(g, {"steps": []})
    t.state(g, subgraphs=True)
    t.run(g, None)


@scenario("sync")
def functional_update(t: Trace) -> None:
    @entrypoint(checkpointer=t.saver)
    def flow(n: int, *, previous: Any = None) -> Any:
        return (previous or 0) + n

    t.update(flow, t.config(), 10)
    t.run(flow, 1)
    t.update(flow, t.config(), 100)
    t.run(flow, 1)
    t.history(flow)


@scenario()
def empty_outputs(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("nothing", lambda _: None)
    b.add_node("unknown", lambda _: {"other": 1})
    b.add_node("end", adds("end"))
    b.add_edge(START, "nothing")
    b.add_edge("nothing", "unknown")
    b.add_conditional_edges("unknown", lambda _: [END, "end", Send("end", {})])
    g = b.compile(checkpointer=t.saver, interrupt_after=["nothing"])
    t.run(g, {"steps": []})
    t.run(g, None)
    t.run(g, Command(goto="missing"))
    t.run(g, Command(update={"steps": ["u"]}))
