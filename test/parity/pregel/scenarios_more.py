"""More scenarios; see scenarios.py."""


import operator
from typing import Annotated, Any, TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.channels import DeltaChannel, LastValue, UntrackedValue
from langgraph.config import get_stream_writer
from langgraph.errors import NodeError
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.runtime import RunControl
from langgraph.types import CachePolicy, Command, Overwrite, RetryPolicy, Send, StateUpdate, interrupt

from harness import Boom, Trace
from scenarios import Steps, adds, asker, line, scenario


def delta_state(frequency: int) -> Any:
    class S(TypedDict):
        items: Annotated[list, DeltaChannel(lambda s, ws: s + [x for w in ws for x in w], snapshot_frequency=frequency)]
        n: int

    return S


def delta_graph(t: Trace, frequency: int) -> Any:
    b = StateGraph(delta_state(frequency))
    b.add_node("a", lambda s: {"items": [f"a{len(s['items'])}"]})
    b.add_node("b", lambda s: {"n": len(s["items"])})
    b.add_node("c", lambda s: {"items": [f"c{s['n']}"]})
    b.add_edge(START, "a")
    b.add_edge("a", "b")
    b.add_edge("b", "c")
    return b.compile(checkpointer=t.saver)


@scenario()
def delta_runs(t: Trace) -> None:
    g = delta_graph(t, 100)
    for w in ("one", "two", "three"):
        t.run(g, {"items": [w], "n": 0})
        t.state(g)
    t.history(g)


@scenario()
def delta_snapshots(t: Trace) -> None:
    g = delta_graph(t, 3)
    for w in ("one", "two", "three"):
        t.run(g, {"items": [w], "n": 0})
    t.history(g)


@scenario("sync")
def delta_updates(t: Trace) -> None:
    g = delta_graph(t, 100)
    t.update(g, t.config(), {"items": ["u"], "n": 1}, as_node="a")
    t.update(g, t.config(), {"items": ["v"]}, as_node="c")
    t.run(g, {"items": ["in"], "n": 0})
    h = t.history(g)
    fork = t.update(g, h[2].config, {"items": ["f"]}, as_node="a")
    t.run(g, None, fork)
    t.run(g, None, h[1].config)
    t.update(g, t.config(), {"items": Overwrite(["reset"])}, as_node="c")
    t.history(g)


@scenario()
def delta_interrupt(t: Trace) -> None:
    b = StateGraph(delta_state(100))
    b.add_node("a", lambda s: {"items": ["a"]})
    b.add_node("ask", lambda s: {"items": [interrupt("?")]})
    b.add_node("z", lambda s: {"items": Overwrite(["z"]) if len(s["items"]) > 5 else ["z"]})
    b.add_edge(START, "a")
    b.add_edge(START, "ask")
    b.add_edge(["a", "ask"], "z")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"items": ["in"]})
    t.state(g)
    t.run(g, Command(resume="r", update={"items": ["upd"]}))
    t.run(g, {"items": ["in2", "in3"]})
    t.run(g, Command(resume="r2"))
    t.history(g)


@scenario()
def error_handler(t: Trace) -> None:
    def fail(_: Any) -> Any:
        raise Boom("broken")

    def handle(_: Any, error: NodeError) -> Any:
        return Command(update={"steps": [f"handled {error.node}: {error.error}"]}, goto="z")

    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("f", fail, error_handler=handle)
    b.add_node("z", adds("z"))
    b.add_edge(START, "f")
    b.add_edge(START, "a")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.history(g)


@scenario()
def error_handler_crash(t: Trace) -> None:
    def fail(_: Any) -> Any:
        t.does("f")
        raise Boom("broken")

    def handle(_: Any, error: NodeError) -> Any:
        if t.does("h") == 1:
            raise Boom("handler broken")
        return {"steps": [f"handled {error.node}: {error.error}"]}

    b = StateGraph(Steps)
    b.add_node("f", fail, error_handler=handle)
    b.add_edge(START, "f")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)
    t.run(g, None)
    t.show("calls", lambda: {n: len(t.did(n)) for n in ("f", "h")})


@scenario()
def node_cache(t: Trace) -> None:
    def work(s: Any) -> Any:
        t.does("work")
        return {"steps": ["w"]}

    class In(TypedDict):
        key: int

    class S(TypedDict):
        key: int
        steps: Annotated[list[str], operator.add]

    b = StateGraph(S)
    b.add_node("work", work, cache_policy=CachePolicy(key_func=lambda s: str(s["key"])))
    b.add_node("z", adds("z"))
    b.add_edge(START, "work")
    b.add_edge("work", "z")
    g = b.compile(checkpointer=t.saver, cache=InMemoryCache())
    t.run(g, {"key": 1, "steps": []})
    t.run(g, {"key": 1, "steps": []})
    g.clear_cache()
    t.run(g, {"key": 1, "steps": []})
    t.show("runs", lambda: len(t.did("work")))


@scenario()
def drain(t: Trace) -> None:
    control = RunControl()

    def a(_: Any) -> Any:
        control.request_drain("sigterm")
        return {"steps": ["a"]}

    b = StateGraph(Steps)
    b.add_node("a", a)
    b.add_node("b", adds("b"))
    b.add_edge(START, "a")
    b.add_edge("a", "b")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []}, control=control)
    t.state(g)
    t.run(g, None)


@scenario()
def custom_stream(t: Trace) -> None:
    def node(tag: str) -> Any:
        def f(_: Any) -> Any:
            w = get_stream_writer()
            w(f"{tag} begins")
            w({"tag": tag})
            return {"steps": [tag]}

        return f

    inner = StateGraph(Steps)
    inner.add_node("i", node("inner"))
    inner.add_edge(START, "i")
    b = StateGraph(Steps)
    b.add_node("a", node("outer"))
    b.add_node("sub", inner.compile())
    b.add_edge(START, "a")
    b.add_edge("a", "sub")
    t.run(b.compile(checkpointer=t.saver), {"steps": []})


@scenario()
def managed_values(t: Trace) -> None:
    class S(TypedDict):
        steps: Annotated[list[str], operator.add]
        last: IsLastStep
        left: RemainingSteps

    b = StateGraph(S)
    b.add_node("a", lambda s: {"steps": [f"{s['last']} {s['left']}"]})
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: "a" if not s["last"] and s["left"] > 2 else END, ["a", END])
    g = b.compile(checkpointer=t.saver)
    c = t.config()
    c["recursion_limit"] = 5
    t.run(g, {"steps": []}, c)


@scenario()
def retries(t: Trace) -> None:
    def flaky(_: Any) -> Any:
        calls = t.does("f")
        if calls < 3:
            raise Boom(f"try {calls}")
        return {"steps": [f"ok {calls}"]}

    b = StateGraph(Steps)
    b.add_node("f", flaky, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Boom))
    b.add_node("g", lambda _: (_ for _ in ()).throw(Boom("for good")), retry_policy=RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=2, retry_on=Boom))
    b.add_edge(START, "f")
    b.add_edge("f", "g")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)


@scenario()
def functional_nested(t: Trace) -> None:
    @task
    def leaf(n: int) -> int:
        return n + 1

    @task
    def mid(n: int) -> int:
        return leaf(n).result() * 10

    @task
    def fails(n: int) -> int:
        raise Boom("caught")

    @entrypoint(checkpointer=t.saver)
    def flow(n: int) -> Any:
        fs = [mid(n), mid(n + 1)]
        out = [f.result() for f in fs]
        try:
            fails(1).result()
        except Boom as e:
            out.append(str(e))
        return out

    t.run(flow, 1)
    t.history(flow)


@scenario()
def sends_to_subgraph(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i", lambda s: {"steps": [interrupt("? " + s["steps"][0])]})
    inner.add_edge(START, "i")
    b = StateGraph(Steps)
    b.add_node("sub", inner.compile())
    b.add_node("z", adds("z"))
    b.add_conditional_edges(START, lambda _: [Send("sub", {"steps": [w]}) for w in ("x", "y")], ["sub"])
    b.add_edge("sub", "z")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    s = t.state(g, subgraphs=True)
    t.run(g, Command(resume={s.interrupts[1].id: "Y"}))
    s = t.state(g)
    t.run(g, Command(resume={s.interrupts[0].id: "X"}))


@scenario("sync")
def three_levels(t: Trace) -> None:
    low = StateGraph(Steps)
    low.add_node("low1", adds("low1"))
    low.add_node("ask", asker("low?"))
    low.add_edge(START, "low1")
    low.add_edge("low1", "ask")
    mid = StateGraph(Steps)
    mid.add_node("mid1", adds("mid1"))
    mid.add_node("low", low.compile())
    mid.add_edge(START, "mid1")
    mid.add_edge("mid1", "low")
    top = StateGraph(Steps)
    top.add_node("mid", mid.compile())
    top.add_node("end", adds("end"))
    top.add_edge(START, "mid")
    top.add_edge("mid", "end")
    g = top.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    s = t.state(g, subgraphs=True)
    t.update(g, s.tasks[0].state.config, {"steps": ["patched"]}, as_node="mid1")
    t.state(g, subgraphs=True)
    t.run(g, None)
    t.run(g, Command(resume="yes"))
    t.history(g)


@scenario("sync")
def bulk_updates(t: Trace) -> None:
    g = line(t, ["a", "b"])
    t.bulk(
        g,
        [
            [StateUpdate({"steps": ["in"]}, "__input__")],
            [StateUpdate({"steps": ["in"]}, "__start__")],
            [StateUpdate({"steps": ["x"]}, "a"), StateUpdate({"steps": ["y"]}, "a")],
        ],
        lambda out: t.put(updated=out["configurable"]),
    )
    t.state(g)
    t.run(g, None)
    h = t.history(g)
    t.update(g, h[1].config, [({"steps": ["copied"]}, "b")], as_node="__copy__")
    t.history(g)


@scenario()
def untracked(t: Trace) -> None:
    class S(TypedDict):
        steps: Annotated[list[str], operator.add]
        secret: Annotated[str, UntrackedValue]

    b = StateGraph(S)
    b.add_node("a", lambda _: {"steps": ["a"], "secret": "s1"})
    b.add_node("w", lambda s: {"steps": [s.get("secret", "none") + s["x"]]})
    b.add_node("b", lambda s: {"steps": ["b" + s.get("secret", "none")]})
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: [Send("w", {"secret": s["secret"], "x": "1"}), "b"], ["w", "b"])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)


@scenario("sync")
def resume_at_checkpoint(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("ask", asker("?"))
    b.add_node("side", adds("side"))
    b.add_edge(START, "a")
    b.add_edge("a", "ask")
    b.add_edge("a", "side")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    s = t.state(g)
    t.run(g, Command(resume="at head"), s.config)
    t.run(g, Command(resume="late"), s.config)
    t.run(g, {"steps": ["more"]})
    t.history(g)
