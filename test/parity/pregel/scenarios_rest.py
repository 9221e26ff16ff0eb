"""Delta channels, time travel and the functional API once more; see scenarios.py."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, interrupt

from harness import Trace
from scenarios import Steps, adds, asker, scenario
from scenarios_deep import counter
from scenarios_more import delta_graph
from scenarios_state import in_line, nexts


@scenario("sync")
def delta_mixed_durability(t: Trace) -> None:
    g = delta_graph(t, 100)
    for i, d in enumerate(("sync", "exit", "sync", "exit", "exit", "sync")):
        t.durability = d
        t.run(g, {"items": [f"in{i}"], "n": 0})
        t.state(g)
    t.history(g)


class Two(TypedDict):
    left: Annotated[list, DeltaChannel(lambda s, ws: s + [x for w in ws for x in w], snapshot_frequency=100000)]
    right: Annotated[list, DeltaChannel(lambda s, ws: s + [x for w in ws for x in w], snapshot_frequency=100000)]
    n: int


@scenario("exit")
def delta_bound(t: Trace) -> None:
    b = StateGraph(Two)
    b.add_node("loop", lambda s: {"n": s["n"] + 1})
    b.add_edge(START, "loop")
    b.add_conditional_edges("loop", lambda s: "loop" if s["n"] < 2497 else END, ["loop", END])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"left": ["l"], "right": ["r"], "n": 0}, modes=["custom"])
    t.state(g)
    t.run(g, {"left": ["l2"], "n": 0}, modes=["custom"])  # 4998 supersteps since right was written
    t.state(g)
    t.run(g, {"left": ["l3"], "n": 2496}, modes=["custom"])
    t.history(g)


@scenario()
def child_with_saver(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i1", adds("i1"))
    inner.add_node("i2", adds("i2"))
    child = in_line(inner, "i1", "i2").compile(checkpointer=t.saver)
    b = StateGraph(Steps)
    b.add_node("sub", lambda s: {"steps": child.invoke({"steps": [str(len(s["steps"]))]})["steps"]})
    b.add_edge(START, "sub")
    b.add_conditional_edges("sub", lambda s: "sub" if len(s["steps"]) < 6 else END, ["sub", END])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.history(g)


@scenario("sync")
def travel_after_the_end(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("first", adds("first"))
    inner.add_node("ask", asker("?"))
    inner.add_node("last", adds("last"))
    b = StateGraph(Steps)
    b.add_node("sub", in_line(inner, "first", "ask", "last").compile(checkpointer=True))
    b.add_node("end", adds("end"))
    g = in_line(b, "sub", "end").compile(checkpointer=t.saver)
    t.run(g, {"steps": ["in"]})
    mid = t.state(g, subgraphs=True)
    t.run(g, Command(resume="yes"))
    before = nexts(t.history(g), "sub")[0]
    child = t.state(g, {"configurable": {"thread_id": "t", "checkpoint_ns": "sub"}})
    t.run(g, None, child.config)
    t.state(g)
    last = t.state(g, before.config, subgraphs=True)
    t.run(g, None, last.tasks[0].state.config)
    t.run(g, None, mid.tasks[0].state.config)
    t.run(g, Command(resume="again"))
    t.history(g)


@scenario("sync")
def three_levels_replayed(t: Trace) -> None:
    mid = StateGraph(Steps)
    mid.add_node("low", counter(checkpointer=True))
    mid.add_node("m", adds("m"))
    b = StateGraph(Steps)
    b.add_node("mid", in_line(mid, "low", "m").compile(checkpointer=True))
    b.add_node("end", adds("end"))
    g = in_line(b, "mid", "end").compile(checkpointer=t.saver)
    for w in "12":
        t.run(g, {"steps": [w]})
    befores = nexts(t.history(g), "mid")
    t.run(g, None, befores[0].config)
    t.run(g, None, t.update(g, befores[0].config, {"steps": ["forked"]}, as_node="__start__"))
    t.run(g, None, befores[1].config)
    t.run(g, {"steps": ["3"]})
    t.history(g)


@scenario("sync")
def fork_drops_writes(t: Trace) -> None:
    class Total(TypedDict):
        n: Annotated[int, operator.add]

    b = StateGraph(Total)
    b.add_node("a", lambda _: {"n": 10})
    b.add_node("b", lambda s: {"n": interrupt("?")})
    b.add_node("c", lambda _: {"n": 100})
    b.add_edge(START, "a")
    b.add_edge(START, "b")
    b.add_edge("a", "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"n": 1})
    s = t.state(g)
    for as_node in ("__start__", "b", "a"):
        t.run(g, None, t.update(g, s.config, {"n": 20}, as_node=as_node))
    t.run(g, None, t.update(g, s.config, None, as_node="a"))
    t.history(g)


@scenario()
def functional_cache(t: Trace) -> None:
    runs: list[int] = []

    @task(cache_policy=CachePolicy())
    def double(n: int) -> int:
        runs.append(n)
        return n * 2

    cache = InMemoryCache()

    @entrypoint(checkpointer=t.saver, cache=cache)
    def functional_flow(_: int) -> Any:
        values: list[Any] = []
        for i in (1, 2, 3):
            values.append(double(i).result())
            values.append(interrupt(f"q{i}"))
        return values

    for thread in ("t", "u"):
        t.run(functional_flow, 0, t.config(thread))
        for w in "abc":
            t.run(functional_flow, Command(resume=w), t.config(thread))
    t.put(runs=runs)
    functional_flow.clear_cache()  # of its nodes, not of what they call
    t.run(functional_flow, 0, t.config("v"))
    t.put(runs=runs)
    double.clear_cache(cache)
    t.run(functional_flow, 0, t.config("w"))
    for w in "abc":
        t.run(functional_flow, Command(resume=w), t.config("w"))
    t.put(runs=runs)


@scenario("sync")
def functional_kept_calls(t: Trace) -> None:
    puts: list[str] = []
    put_writes = t.saver.put_writes

    def counted(config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        puts.append(f"{task_id} {' '.join(c for c, _ in writes)}")
        put_writes(config, writes, task_id, task_path)

    t.saver.put_writes = counted  # type: ignore[method-assign]

    @task
    def kept(n: int) -> int:
        return n * 2

    @task
    def ask(q: str) -> str:
        return interrupt(q)

    @entrypoint(checkpointer=t.saver)
    def functional_flow(n: int) -> Any:
        return [kept(n).result(), ask("?").result()]

    t.run(functional_flow, 1)
    t.put(puts=puts)
    puts.clear()
    t.run(functional_flow, Command(resume="!"))
    t.put(puts=puts)
