"""Interrupts, breakpoints, failures and what follows them; see scenarios.py."""

from typing import Any

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.types import Command, Send, interrupt

import operator

from harness import Boom, Trace
from scenarios import Steps, adds, asker, line, scenario


@scenario()
def resume_after_send(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("work", lambda n: {"steps": [f"w{n}"]})
    b.add_node("ask", asker("?"))
    b.add_node("end", adds("end"))
    b.add_conditional_edges(START, lambda _: [Send("work", 1), "ask", Send("work", 2)], ["work", "ask"])
    b.add_edge("work", "end")
    b.add_edge("ask", "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    t.state(g)
    t.run(g, None)
    t.run(g, Command(resume="yes"))
    t.history(g)


@scenario()
def questions_in_line(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "b"):
        b.add_node(n, adds(n))
    b.add_node("ask1", asker("one?"))
    b.add_node("ask2", asker("two?", "three?"))
    prev = START
    for n in ("a", "ask1", "b", "ask2"):
        b.add_edge(prev, n)
        prev = n
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for word in ("1", "2", "3"):
        t.run(g, Command(resume=word))
        t.state(g)
    t.run(g, {"steps": ["again"]})
    t.run(g, Command(resume="4"))
    t.history(g)


@scenario()
def two_by_two_questions(t: Trace) -> None:
    def child(name: str) -> Any:
        b = StateGraph(Steps)
        for n in ("p", "q"):
            b.add_node(n, asker(f"{name}{n}?"))
            b.add_edge(START, n)
        return b.compile()

    b = StateGraph(Steps)
    b.add_node("x", child("x"))
    b.add_node("y", child("y"))
    b.add_node("end", adds("end"))
    for n in "xy":
        b.add_edge(START, n)
    b.add_edge(["x", "y"], "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for i in range(4):
        s = t.state(g, subgraphs=True)
        t.run(g, Command(resume={s.interrupts[-1].id: f"r{i}"}))


@scenario()
def ask_until_valid(t: Trace) -> None:
    def node(_: Any) -> Any:
        q = "age?"
        while True:
            v = interrupt(q)
            if v >= "18":
                return {"steps": [v]}
            q = f"{v} is too young"

    b = StateGraph(Steps)
    b.add_node("ask", node)
    b.add_edge(START, "ask")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for v in ("13", "15", "19"):
        t.run(g, Command(resume=v))
    t.state(g)


@scenario()
def answers_of_any_type(t: Trace) -> None:
    def node(_: Any) -> Any:
        got = [interrupt(i) for i in range(5)]
        t.does("got", got)
        return {"steps": [str(len(got))]}

    b = StateGraph(Steps)
    b.add_node("ask", node)
    b.add_edge(START, "ask")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for v in (True, "", 0, [], {"a": {"b": None}}):
        t.run(g, Command(resume=v))
    t.show("got", lambda: t.did("got")[0])


@scenario()
def handler_beside_question(t: Trace) -> None:
    def fail(_: Any) -> Any:
        raise Boom("broken")

    b = StateGraph(Steps)
    b.add_node("ask", asker("?"), error_handler=adds("never"))
    b.add_node("f", fail, error_handler=adds("handled"))
    b.add_node("end", adds("end"))
    b.add_edge(START, "ask")
    b.add_edge(START, "f")
    b.add_edge(["ask", "f"], "end")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)
    t.run(g, Command(resume="yes"))
    t.history(g)


@scenario()
def question_beside_failure(t: Trace) -> None:
    def flaky(_: Any) -> Any:
        if t.does("flaky") == 1:
            raise Boom("once")
        return {"steps": ["flaky"]}

    b = StateGraph(Steps)
    b.add_node("ask", asker("?"))
    b.add_node("f", flaky)
    b.add_edge(START, "ask")
    b.add_edge(START, "f")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)
    t.run(g, None)
    t.run(g, Command(resume="yes"))
    t.history(g)


@scenario()
def breakpoint_commands(t: Trace) -> None:
    g = line(t, ["a", "b"], interrupt_before=["a"])
    t.run(g, {"steps": []})
    t.run(g, Command(resume="any"))
    t.run(g, {"steps": ["2"]}, t.config("update"))
    t.run(g, Command(update={"steps": ["upd"]}), t.config("update"))
    t.run(g, None, t.config("update"))
    t.history(g)


@scenario("sync")
def breakpoint_edit(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in ("a", "r1", "r2", "qa"):
        b.add_node(n, adds(n))
    b.add_edge(START, "a")
    b.add_edge("a", "r1")
    b.add_edge("a", "r2")
    b.add_edge(["r1", "r2"], "qa")
    g = b.compile(checkpointer=t.saver, interrupt_before=["qa"])
    t.run(g, {"steps": []})
    t.state(g)
    t.update(g, t.config(), {"steps": ["lost"]})
    t.update(g, t.config(), {"steps": ["edited"]}, as_node="r1")
    t.state(g)
    t.run(g, None)
    t.history(g)


@scenario()
def breakpoints_of_both(t: Trace) -> None:
    def outer(**compile: Any) -> Any:
        b = StateGraph(Steps)
        b.add_node("inner", line(t, ["i1", "i2"], interrupt_before=["i2"]))
        b.add_node("side", adds("side"))
        b.add_node("end", adds("end"))
        b.add_edge(START, "inner")
        b.add_edge(START, "side")
        b.add_edge(["inner", "side"], "end")
        return b.compile(checkpointer=t.saver, **compile)

    for thread, kw in (("before", {"interrupt_before": ["side"]}), ("after", {"interrupt_after": ["side"]})):
        g = outer(**kw)
        t.run(g, {"steps": []}, t.config(thread))
        t.run(g, None, t.config(thread))
        t.run(g, None, t.config(thread))


@scenario()
def breakpoint_below(t: Trace) -> None:
    low = StateGraph(Steps)
    low.add_node("l1", adds("l1"))
    low.add_node("l2", adds("l2"))
    low.add_edge(START, "l1")
    low.add_edge("l1", "l2")
    mid = StateGraph(Steps)
    mid.add_node("low", low.compile(interrupt_before=["l2"]))
    mid.add_edge(START, "low")
    b = StateGraph(Steps)
    b.add_node("p1", adds("p1"))
    b.add_node("mid", mid.compile())
    b.add_node("p2", adds("p2"))
    b.add_edge(START, "p1")
    b.add_edge("p1", "mid")
    b.add_edge("mid", "p2")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g, subgraphs=True)
    t.run(g, None)
    t.history(g)


@scenario("sync")
def raw_breakpoint_history(t: Trace) -> None:
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
    t.run(g, 20)
    t.run(g, 3)
    t.run(g, None)
    h = t.history(g)
    for s in h[:3]:
        t.run(g, None, s.config)
    t.run(g, 20, t.config("2"))
    t.update(g, t.config("2"), 25, as_node="one")
    t.run(g, None, t.config("2"))


@scenario()
def totals(t: Trace) -> None:
    def add(d: Any) -> Any:
        if d["input"] > 10:
            raise Boom("Input is too large")
        return d["input"] + d.get("total", 0)

    one = NodeBuilder().subscribe_to("input").read_from("total").do(add).write_to("output", "total").build()
    g = Pregel(
        nodes={"one": one},
        channels={"total": BinaryOperatorAggregate(int, operator.add), "input": LastValue(int), "output": LastValue(int)},
        input_channels="input",
        output_channels="output",
        checkpointer=t.saver,
    )
    for n in (2, 3, 40, 4):
        t.run(g, n)
        t.state(g)
    t.history(g)


@scenario()
def failure_then_new_input(t: Trace) -> None:
    def flaky(_: Any) -> Any:
        if t.does("one") == 1:
            raise Boom("Simulated failure")
        return {"steps": ["one"]}

    b = StateGraph(Steps)
    b.add_node("one", flaky)
    b.add_node("two", adds("two"))
    b.add_edge(START, "one")
    b.add_edge("one", "two")
    b.add_edge("two", END)
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": ["start"]})
    t.run(g, {"steps": ["again"]})
    t.history(g)
    t.call("delete", lambda: t.saver.delete_thread("t"))
    t.state(g)
