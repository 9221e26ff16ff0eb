"""Time travel, updates of state and functional graphs; see scenarios.py."""

from typing import Any, TypedDict


from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Overwrite, Send, StateUpdate, interrupt

from harness import Boom, Trace
from scenarios import Steps, adds, asker, inner_graph, line, outer_graph, scenario
from scenarios_deep import counter
from scenarios_more import delta_graph, delta_state


def in_line(b: Any, *names: str) -> Any:
    prev = START
    for n in names:
        b.add_edge(prev, n)
        prev = n
    return b


def nexts(h: list, *nodes: str) -> list:
    return [s for s in h if s.next == nodes]


@scenario("sync")
def replay_middle(t: Trace) -> None:
    g = line(t, ["a", "b", "c"])
    t.run(g, {"steps": []})
    h = t.history(g)
    before = nexts(h, "b")[0]
    t.run(g, None, before.config)
    t.run(g, None, h[0].config)
    for w in ("x", "y"):
        fork = t.update(g, before.config, {"steps": [w]})
        t.run(g, None, fork)
    for s in h[1:4]:
        t.run(g, None, s.config)
    t.history(g)


@scenario("sync")
def replay_between_questions(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("ask1", asker("one?"))
    b.add_node("ask2", asker("two?", "three?"))
    b.add_node("end", adds("end"))
    g = in_line(b, "ask1", "ask2", "end").compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    for w in "123":
        t.run(g, Command(resume=w))
    h = t.history(g)
    first, second = nexts(h, "ask1")[0], nexts(h, "ask2")[0]
    fork = t.update(g, second.config, {"steps": ["forked"]}, as_node="ask1")
    t.run(g, None, fork)
    t.run(g, Command(resume="B"))
    t.run(g, None, first.config)
    t.run(g, None, first.config)
    t.run(g, None, second.config)
    t.run(g, Command(resume="again"))
    t.history(g)


@scenario("sync")
def copies_ask_again(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("ask", asker("?"))
    b.add_node("z", adds("z"))
    g = in_line(b, "a", "ask", "z").compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.run(g, Command(resume="one"))
    before = nexts(t.history(g), "ask")[0]
    copy = t.update(g, before.config, None, as_node="__copy__")
    t.run(g, None, copy)
    t.run(g, Command(resume="two"))
    same = t.update(g, before.config, None)
    t.run(g, None, same)
    t.run(g, Command(resume="three"))
    t.update(g, before.config, None, as_node=END)
    t.history(g)


def questions(**compile: Any) -> Any:
    b = StateGraph(Steps)
    b.add_node("first", adds("first"))
    b.add_node("ask1", asker("one?"))
    b.add_node("ask2", asker("two?"))
    return in_line(b, "first", "ask1", "ask2").compile(**compile)


@scenario("sync")
def travel_into_questions(t: Trace) -> None:
    g = outer_graph(t, questions(checkpointer=True))
    t.run(g, {"steps": []})
    one = t.state(g, subgraphs=True).tasks[0].state.config
    t.run(g, Command(resume="1"))
    two = t.state(g, subgraphs=True).tasks[0].state.config
    t.run(g, Command(resume="2"))
    t.run(g, None, two)
    t.run(g, Command(resume="new 2"))
    t.run(g, None, one)
    t.run(g, Command(resume="1 again"))
    t.run(g, Command(resume="2 again"))
    t.history(g)


@scenario("sync")
def travel_into_plain_questions(t: Trace) -> None:
    g = outer_graph(t, questions())
    t.run(g, {"steps": []})
    one = t.state(g, subgraphs=True).tasks[0].state.config
    t.run(g, Command(resume="1"))
    two = t.state(g, subgraphs=True).tasks[0].state.config
    t.run(g, Command(resume="2"))
    t.run(g, None, two)
    t.run(g, Command(resume="new 2"))
    t.run(g, None, one)
    t.run(g, Command(resume="1 again"))
    t.run(g, Command(resume="2 again"))
    before = nexts(t.history(g), "sub")[0]
    t.run(g, None, before.config)
    t.run(g, Command(resume="replayed"))


@scenario("sync")
def answers_at_places(t: Trace) -> None:
    g = outer_graph(t, questions())
    t.run(g, {"steps": []})
    places = [t.state(g, subgraphs=True).tasks[0].state.config, t.state(g).config]
    t.run(g, Command(resume="1"))
    places += [t.state(g, subgraphs=True).tasks[0].state.config]
    t.run(g, Command(resume="2"), places[2])
    for n, place in enumerate(places):
        t.run(g, Command(resume=f"again {n}"), place)
        t.state(g)
    b = StateGraph(Steps)
    b.add_node("ask", asker("one?", "two?"))
    flat = in_line(b, "ask").compile(checkpointer=t.saver)
    c = t.config("flat")
    t.run(flat, {"steps": []}, c)
    asked = t.state(flat, c).config
    t.run(flat, Command(resume="1"), c)
    t.run(flat, Command(resume="2"), asked)
    t.run(flat, Command(resume="3"), asked)
    t.history(flat, c)


@scenario("sync")
def answers_that_steer(t: Trace) -> None:
    def asking(*nodes: str) -> Any:
        b = StateGraph(Steps)
        for n in nodes:
            b.add_node(n, asker(f"{n}?") if n.startswith("ask") else adds(n))
            b.add_edge(START, n)
        b.add_node("z", adds("z"))
        return b.compile(checkpointer=t.saver)

    steers: list[dict] = [{"update": {"steps": ["u"]}}, {"goto": "z"}, {"update": {"steps": ["u"]}, "goto": "z"}]
    for waits, g in (("nothing", asking("a")), ("one", asking("ask1")), ("two", asking("ask1", "ask2")), ("inside", outer_graph(t, questions()))):
        for n, steer in enumerate(steers):
            if waits == "inside" and "goto" in steer:
                steer = {**steer, "goto": "after"}
            c = t.config(f"{waits}{n}")
            t.run(g, {"steps": []}, c)
            t.run(g, Command(resume="new", **steer), c)
            t.state(g, c)


@scenario("sync")
def resume_stateful_at_head(t: Trace) -> None:
    g = outer_graph(t, inner_graph(checkpointer=True))
    t.run(g, {"steps": []})
    s = t.state(g)
    t.run(g, Command(resume="answer"), s.config)
    t.history(g)


@scenario("sync")
def replay_visits(t: Trace) -> None:
    for thread, kw in (("stateful", {"checkpointer": True}), ("stateless", {})):
        g = outer_graph(t, counter(**kw))
        c = t.config(thread)
        t.run(g, {"steps": ["1"]}, c)
        t.run(g, {"steps": ["2"]}, c)
        subs = nexts(t.history(g, c), "sub")
        t.run(g, None, subs[0].config)
        t.run(g, None, subs[-1].config)
        fork = t.update(g, subs[0].config, {"steps": ["forked"]}, as_node="before")
        t.run(g, None, fork)
        t.run(g, {"steps": ["3"]}, c)


@scenario("sync")
def updates_like_a_run(t: Trace) -> None:
    g = line(t, ["agent", "tool"])
    c = t.config("real")
    t.run(g, {"steps": ["in"]}, c)
    t.run(g, {"steps": ["more"]}, c)
    for w in ("in", "more"):
        t.bulk(
            g,
            [
                [StateUpdate({"steps": [w]}, "__input__")],
                [StateUpdate({"steps": [w]}, "__start__")],
                [StateUpdate({"steps": ["agent"]}, "agent")],
                [StateUpdate({"steps": ["tool"]}, "tool")],
            ],
        )
    t.history(g, c)
    t.history(g)


def fanned(t: Trace) -> Any:
    b = StateGraph(Steps)
    b.add_node("plan", lambda _: Command(goto=[Send("task", str(i)) for i in range(3)]))
    b.add_node("task", lambda i: {"steps": ["t" + i]})
    b.add_edge(START, "plan")
    return b.compile(checkpointer=t.saver)


@scenario("sync")
def updates_with_sends(t: Trace) -> None:
    g = fanned(t)
    t.bulk(
        g,
        [
            [StateUpdate({"steps": []}, "__input__")],
            [StateUpdate({"steps": []}, "__start__")],
            [StateUpdate(Command(goto=[Send("task", str(i)) for i in range(3)]), "plan")],
            [StateUpdate({"steps": [f"t{i}"]}, "task") for i in range(3)],
        ],
    )
    h = t.history(g)
    t.update(g, h[1].config, None, as_node="__copy__")
    t.run(g, None)
    t.update(g, h[2].config, [(Command(goto=Send("task", "only")), "plan")], as_node="__copy__")
    t.run(g, None)
    t.history(g)


@scenario("sync")
def updates_refused(t: Trace) -> None:
    b = StateGraph(Steps)
    for n in "ab":
        b.add_node(n, adds(n))
        b.add_edge(START, n)
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.update(g, t.config(), {"steps": ["who?"]})
    for steps in (
        [[StateUpdate({"steps": ["x"]}), StateUpdate({"steps": ["y"]})]],
        [[StateUpdate(None, END), StateUpdate(None, "__copy__")]],
        [[StateUpdate({"steps": ["x"]}, "a"), StateUpdate({"steps": ["y"]}, "nobody")]],
    ):
        t.bulk(g, steps)
    t.history(g)


@scenario("sync")
def update_of_first(t: Trace) -> None:
    g = line(t, ["a", "b"])
    t.run(g, {"steps": ["in"]})
    first = nexts(t.history(g), "a")[0]
    again = t.update(g, first.config, None)
    t.run(g, None, again)
    t.update(g, t.config("new"), {"steps": ["u"]})
    t.run(g, None, t.config("new"))
    t.history(g)


@scenario("sync")
def update_below(t: Trace) -> None:
    g = outer_graph(t, inner_graph())
    t.run(g, {"steps": []})
    s = t.state(g, subgraphs=True)
    t.update(g, s.tasks[0].state.config, {"steps": ["answered"]}, as_node="ask")
    t.state(g, subgraphs=True)
    t.run(g, None)
    t.history(g)


@scenario()
def functional_map(t: Trace) -> None:
    @task
    def mapper(n: int) -> str:
        t.does("mapper", n)
        return str(n) * 2

    @entrypoint(checkpointer=t.saver)
    def flow(ns: list[int]) -> Any:
        mapped = [f.result() for f in [mapper(n) for n in ns]]
        answer = interrupt("question")
        return [m + answer for m in mapped]

    t.run(flow, [0, 1])
    t.state(flow)
    t.run(flow, Command(resume="answer"))
    t.history(flow)
    t.show("calls", lambda: t.did("mapper"))


@scenario()
def functional_questions(t: Trace) -> None:
    @task
    def double(n: int) -> int:
        t.does("double", n)
        return n * 2

    @entrypoint(checkpointer=t.saver)
    def flow(_: int) -> Any:
        values: list[Any] = []
        for i in (1, 2, 3):
            values.append(double(i).result())
            values.append(interrupt(f"q{i}"))
        return values

    t.run(flow, 0)
    for w in "abc":
        t.run(flow, Command(resume=w))
    t.history(flow)
    t.show("runs", lambda: t.did("double"))


@scenario()
def functional_asking_tasks(t: Trace) -> None:
    @task
    def setup(s: str) -> str:
        return s + "!"

    @task
    def ask(q: str) -> str:
        return interrupt(q)

    @entrypoint(checkpointer=t.saver)
    def flow(s: str) -> Any:
        s = setup(s).result()
        answers = [ask(q).result() for q in ("one?", "two?")]
        return {"answers": answers, "s": s}

    t.run(flow, "hi")
    t.run(flow, Command(resume="1"))
    t.state(flow)
    t.run(flow, Command(resume="2"))
    t.history(flow)


@scenario()
def functional_with_graph(t: Trace) -> None:
    sub = counter()

    @task
    def leaf(n: int) -> str:
        return str(n)

    @task
    def outer(n: int) -> str:
        return leaf(n).result() * 2

    @entrypoint(checkpointer=t.saver)
    def flow(ns: list[int]) -> Any:
        mapped = [f.result() for f in [outer(n) for n in ns]]
        answer = interrupt("question")
        return sub.invoke({"steps": [m + answer for m in mapped]})["steps"]

    t.run(flow, [0, 1])
    t.run(flow, Command(resume="a"))
    t.history(flow)


@scenario()
def functional_failing_task(t: Trace) -> None:
    @task
    def good(w: str) -> str:
        t.does("calls", w)
        return w

    @task
    def flaky(w: str) -> str:
        if t.does("calls", w) < 3:
            raise Boom("not yet")
        return w

    @entrypoint(checkpointer=t.saver)
    def flow(_: int) -> Any:
        return [good("g").result(), flaky("f").result()]

    t.run(flow, 0)
    t.state(flow)
    t.run(flow, None)
    t.history(flow)
    t.show("calls", lambda: t.did("calls"))


@scenario()
def delta_every_step(t: Trace) -> None:
    g = delta_graph(t, 1)
    t.run(g, {"items": ["one"], "n": 0})
    t.update(g, t.config(), {"items": ["u"]}, as_node="c")
    t.run(g, {"items": ["two"], "n": 0})
    t.history(g)


@scenario("sync")
def delta_fresh_updates(t: Trace) -> None:
    g = delta_graph(t, 2)
    for w in "uvwx":
        t.update(g, t.config(), {"items": [w]}, as_node="a")
        t.state(g)
    t.bulk(g, [[StateUpdate({"items": ["y"]}, "a", "00000000-0000-0000-0000-000000000001"), StateUpdate({"items": ["z"]}, "a", "00000000-0000-0000-0000-000000000002")]])
    t.history(g)


@scenario()
def delta_from_list(t: Trace) -> None:
    class Old(TypedDict):
        items: list
        n: int

    b = StateGraph(Old)
    b.add_node("a", lambda s: {"items": s["items"] + ["old"]})
    old = in_line(b, "a").compile(checkpointer=t.saver)
    t.run(old, {"items": ["u0"], "n": 0})
    t.run(old, {"items": ["u1", "u2"], "n": 0})
    g = delta_graph(t, 100)
    t.state(g)
    t.run(g, {"items": ["d0"], "n": 0})
    t.state(g)
    t.run(g, {"items": ["d1"], "n": 0})
    t.history(g)


@scenario()
def delta_from_null(t: Trace) -> None:
    class Old(TypedDict):
        items: Any
        n: int

    b = StateGraph(Old)
    b.add_node("a", lambda s: {"n": 1})
    old = in_line(b, "a").compile(checkpointer=t.saver)
    t.run(old, {"items": None, "n": 0})
    g = delta_graph(t, 100)
    t.state(g)
    t.run(g, {"items": ["d0"], "n": 0})
    t.state(g)
    t.run(g, {"items": ["d1"], "n": 0})
    t.history(g)


@scenario()
def delta_overwritten(t: Trace) -> None:
    b = StateGraph(delta_state(100))
    b.add_node("a", lambda s: {"items": Overwrite(["reset"])})
    b.add_node("b", lambda s: {"items": ["after"]})
    g = in_line(b, "a", "b").compile(checkpointer=t.saver)
    t.run(g, {"items": ["in"]})
    t.run(g, {"items": ["in2"]})
    t.history(g)


@scenario()
def delta_failing(t: Trace) -> None:
    def flaky(s: Any) -> Any:
        if t.does("f") == 1:
            raise Boom("once")
        return {"items": ["flaky"]}

    b = StateGraph(delta_state(100))
    b.add_node("a", lambda s: {"items": ["a"]})
    b.add_node("f", flaky)
    b.add_edge(START, "a")
    b.add_edge(START, "f")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"items": ["in"]})
    t.state(g)
    t.run(g, None)
    t.run(g, {"items": ["next"]})
    t.history(g)
