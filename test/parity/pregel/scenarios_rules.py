"""Run control, failures, the runtime and the rest of the rules; see scenarios.py."""

import operator
import threading
from typing import Annotated, Any, TypedDict

import langgraph.pregel._runner as runner
from langgraph.callbacks import GraphCallbackHandler
from langgraph.config import get_stream_writer
from langgraph.errors import NodeError
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl, Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, interrupt

from harness import Boom, Trace, at_once
from scenarios import Steps, adds, asker, line, scenario
from scenarios_state import in_line


class Shown(TypedDict):
    steps: Annotated[list[str], operator.add]


class Hidden(TypedDict):
    secret: str


class Routed(TypedDict):
    secret: str
    steps: list[str]


@scenario()
def branch_reads(t: Trace) -> None:
    def keys(s: dict) -> str:
        return " ".join(sorted(s))

    def route(s: Hidden) -> str:
        get_stream_writer()(f"route: {keys(s)}")
        return "c" if s["secret"] == "x" else END

    def all_of(s: Routed) -> str:
        get_stream_writer()(f"all_of: {keys(s)}")
        return "d"

    def plain(s: Any) -> str:
        get_stream_writer()(f"plain: {keys(s)}")
        return END

    b = StateGraph(Shown)
    b.add_node("a", lambda s: {"steps": ["a"], "secret": "x", "extra": 1})
    b.add_node("b", lambda s: {"steps": ["b"], "extra": 2})
    b.add_node("c", lambda s: {"steps": ["c " + keys(s)]}, input_schema=Hidden)
    b.add_node("d", lambda s: {"steps": ["d " + keys(s)]}, input_schema=Routed)
    b.add_edge(START, "a")
    b.add_edge(START, "b")
    b.add_conditional_edges("a", route, ["c", END])
    b.add_conditional_edges("a", all_of, ["d"])
    b.add_conditional_edges("b", plain, [END])
    t.run(b.compile(checkpointer=t.saver), {"steps": []})


@scenario()
def empty_input(t: Trace) -> None:
    g = line(t, ["a", "b"])
    t.run(g, {})
    t.run(g, {})
    t.history(g)


@scenario("exit")  # LangGraph fails in sync: its loop waits for a save there is none of
def question_without_saver(t: Trace) -> None:
    runs = {"n": 0}

    def ask(s: Any) -> Any:
        runs["n"] += 1
        return {"steps": [interrupt("Just because...")]}

    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("ask", ask, retry_policy=RetryPolicy(initial_interval=0.001, retry_on=Exception))
    b.add_node("side", adds("side"))
    b.add_edge(START, "a")
    b.add_edge("a", "ask")
    b.add_edge("a", "side")
    t.run(b.compile(), {"steps": ["in"]})
    t.put(runs=runs["n"])


class Watching(GraphCallbackHandler):
    def __init__(self) -> None:
        self.events: list[dict] = []

    def note(self, kind: str, e: Any, ids: list | None) -> None:
        self.events.append({"kind": kind, "status": e.status, "checkpoint_id": e.checkpoint_id, "ns": list(e.checkpoint_ns), "interrupts": ids})

    def on_interrupt(self, event: Any) -> None:
        self.note("interrupt", event, [i.id for i in event.interrupts])

    def on_resume(self, event: Any) -> None:
        self.note("resume", event, None)


class Raising(GraphCallbackHandler):
    def on_interrupt(self, event: Any) -> None:
        raise RuntimeError("a handler")

    on_resume = on_interrupt


@scenario()
def lifecycle(t: Trace) -> None:
    inner = in_line(StateGraph(Steps).add_node("i", asker("inner?")), "i").compile()
    b = StateGraph(Steps)
    b.add_node("ask", asker("one?", "two?"))
    b.add_node("sub", inner)
    b.add_node("z", adds("z"))
    g = in_line(b, "ask", "sub", "z").compile(checkpointer=t.saver, interrupt_before=["z"])
    watching = Watching()

    def config() -> dict:
        return {**t.config(), "callbacks": [watching, Raising()]}

    t.run(g, {"steps": []}, config())
    t.run(g, Command(resume="1"), config())
    t.run(g, Command(resume="2"), config())
    t.run(g, Command(resume="3"), config())
    t.run(g, None, config())
    t.run(g, None, config())
    t.put(hooks=watching.events)


@scenario()
def handler_above(t: Trace) -> None:
    def fail(_: Any) -> Any:
        raise Boom("deep")

    def handle(_: Any, error: NodeError) -> Any:
        return {"steps": [f"handled {error.node}: {error.error}"]}

    inner = StateGraph(Steps)
    inner.add_node("first", adds("first"))
    inner.add_node("deep", fail)
    b = StateGraph(Steps)
    b.add_node("sub", in_line(inner, "first", "deep").compile(), error_handler=handle)
    b.add_node("z", adds("z"))
    g = in_line(b, "sub", "z").compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.history(g)


@scenario()
def two_handlers(t: Trace) -> None:
    calls: list[str] = []
    broken = {"now": True}

    def fail(name: str) -> Any:
        def f(_: Any) -> Any:
            calls.append(name)
            raise Boom(f"{name} broken")

        return f

    def handle(_: Any, error: NodeError) -> Any:
        calls.append(f"handler of {error.node}")
        if error.node == "b" and broken["now"]:
            raise Boom("handler broken")
        return {"steps": [f"handled {error.node}: {error.error}"]}

    b = StateGraph(Steps)
    for n in "ab":
        b.add_node(n, fail(n), error_handler=handle)
        b.add_edge(START, n)
    b.add_node("c", adds("c"))
    b.add_edge(START, "c")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)
    broken["now"] = False
    t.run(g, None)
    t.put(calls=[c for c in calls if not c.startswith("handler")])
    t.history(g)


@scenario()
def node_defaults(t: Trace) -> None:
    calls = {"a": 0, "b": 0, "c": 0}

    def fail(name: str) -> Any:
        def f(_: Any) -> Any:
            calls[name] += 1
            raise Boom(name)

        return f

    def tries(n: int) -> RetryPolicy:
        return RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=n, retry_on=Boom)

    def own(_: Any, error: NodeError) -> Any:
        return {"steps": [f"own {error.node}"]}

    def default(_: Any, error: NodeError) -> Any:
        return {"steps": [f"default {error.node}"]}

    b = StateGraph(Steps)
    b.set_node_defaults(retry_policy=tries(4), error_handler=default)
    b.add_node("a", fail("a"), retry_policy=tries(2))
    b.add_node("b", fail("b"))
    b.add_node("c", fail("c"), error_handler=own)
    for n in "abc":
        b.add_edge(START, n)
    t.run(b.compile(checkpointer=t.saver), {"steps": []})
    t.put(calls=calls)


@scenario()
def drain_last(t: Trace) -> None:
    control = RunControl()

    def last(_: Any) -> Any:
        control.request_drain("too late")
        return {"steps": ["last"]}

    b = StateGraph(Steps)
    b.add_node("a", adds("a"))
    b.add_node("last", last)
    g = in_line(b, "a", "last").compile(checkpointer=t.saver)
    t.run(g, {"steps": []}, control=control)
    t.state(g)


@scenario()
def drain_below(t: Trace) -> None:
    control = RunControl()

    def first(_: Any) -> Any:
        control.request_drain("stop")
        return {"steps": ["child first"]}

    inner = StateGraph(Steps)
    inner.add_node("first", first)
    inner.add_node("second", adds("child second"))
    b = StateGraph(Steps)
    b.add_node("child", in_line(inner, "first", "second").compile(checkpointer=True))
    b.add_node("side", adds("side"))
    b.add_node("z", adds("z"))
    b.add_edge(START, "side")
    g = in_line(b, "child", "z").compile(checkpointer=t.saver)
    t.run(g, {"steps": []}, control=control)
    t.state(g, subgraphs=True)
    t.run(g, None)
    t.history(g)


@scenario()
def functional_drain(t: Trace) -> None:
    control = RunControl()

    @task
    def double(n: int) -> int:
        return n * 2

    @entrypoint(checkpointer=t.saver)
    def functional_flow(n: int) -> int:
        control.request_drain("stop")
        return double(double(n).result()).result()

    t.run(functional_flow, 1, control=control)
    t.state(functional_flow)


@scenario()
def functional_question_below(t: Trace) -> None:
    @task
    def ask(q: str) -> str:
        return interrupt(q)

    inner = StateGraph(Steps)
    inner.add_node("asks", lambda _: {"steps": [ask("sure?").result()]})
    b = StateGraph(Steps)
    b.add_node("child", in_line(inner, "asks").compile())
    g = in_line(b, "child").compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g, subgraphs=True)
    t.run(g, Command(resume="yes"))
    t.history(g)


def told(name: str) -> Any:
    def f(_: Any, runtime: Runtime) -> Any:
        i = runtime.execution_info
        get_stream_writer()({
            "node": name, "context": runtime.context, "checkpoint_id": i.checkpoint_id, "checkpoint_ns": i.checkpoint_ns,
            "task_id": i.task_id, "thread_id": i.thread_id, "run_id": i.run_id, "attempt": i.node_attempt,
            "draining": runtime.drain_requested,
        })
        if name == "flaky" and i.node_attempt < 2:
            raise Boom("again")
        return {"steps": [name]}

    return f


@scenario()
def runtime_of_tasks(t: Trace) -> None:
    inner = StateGraph(Steps)
    inner.add_node("i", told("i"))
    b = StateGraph(Steps)
    b.add_node("a", told("a"))
    b.add_node("flaky", told("flaky"), retry_policy=RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Boom))
    b.add_node("sub", in_line(inner, "i").compile())
    g = in_line(b, "a", "flaky", "sub").compile(checkpointer=t.saver)
    c = t.config()
    c["run_id"] = "11111111-2222-3333-4444-555555555555"
    c["metadata"] = {"run_id": c["run_id"]}  # which is what is stored
    t.run(g, {"steps": []}, c, context={"user": "u1"}, control=RunControl())
    t.run(g, {"steps": []})


@scenario()
def store_in_nodes(t: Trace) -> None:
    def put(name: str) -> Any:
        def f(s: Any, runtime: Runtime) -> Any:
            ns = ("notes", runtime.context["user"])
            runtime.store.put(ns, name, {"n": len(s["steps"])})
            found = [i.key for i in runtime.store.search(ns)]
            return {"steps": [f"{name} sees {' '.join(sorted(found))}"]}

        return f

    inner = StateGraph(Steps)
    inner.add_node("i", put("i"))
    b = StateGraph(Steps)
    b.add_node("a", put("a"))
    b.add_node("sub", in_line(inner, "i").compile())
    b.add_node("z", put("z"))
    g = in_line(b, "a", "sub", "z").compile(checkpointer=t.saver, store=InMemoryStore())
    t.run(g, {"steps": []}, context={"user": "u1"})
    t.run(g, {"steps": []}, t.config("other"), context={"user": "u2"})
    t.run(g, {"steps": ["in"]}, context={"user": "u1"})


class Letter(TypedDict):
    steps: Annotated[list[str], operator.add]
    draft: str


@scenario()
def node_named_as_key(t: Trace) -> None:
    b = StateGraph(Letter)
    b.add_node("draft", lambda s: {"draft": "Dear " + " ".join(s["steps"]), "steps": ["drafted"]})
    b.add_node("steps", lambda s: {"steps": ["read " + s["draft"]]})
    b.add_edge(START, "draft")
    b.add_conditional_edges("draft", lambda s: "steps" if len(s["steps"]) < 4 else END, ["steps", END])
    b.add_edge("steps", "draft")
    g = b.compile(checkpointer=t.saver, interrupt_after=["steps"])
    t.run(g, {"steps": ["Ada"]})
    t.state(g)
    t.run(g, None)
    t.update(g, t.config(), {"draft": "by hand"}, as_node="steps")
    t.history(g)


@scenario()
def question_with_schema(t: Trace) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}}, "required": ["ok"]}

    def ask(_: Any) -> Any:
        first = interrupt("sure?", response_schema=schema)
        second = interrupt("quite?")
        return {"steps": [f"{first['ok']} {second}"]}

    b = StateGraph(Steps)
    b.add_node("ask", ask)
    b.add_edge(START, "ask")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"steps": []})
    t.state(g)
    t.run(g, Command(resume={"ok": True}))
    t.run(g, Command(resume="yes"))
    t.history(g)


@scenario("sync")  # in exit it depends on the machine whether the second failure is in time to be stored
def handler_after_sibling(t: Trace) -> None:
    calls: list[str] = []
    broken = {"now": True}
    begun, stopped = threading.Event(), threading.Event()

    def stop(*args: Any, **kwargs: Any) -> Any:
        stopped.set()
        return raises(*args, **kwargs)

    raises = runner._panic_or_proceed

    def first(_: Any) -> Any:
        calls.append("first")
        if broken["now"]:
            begun.wait()
            raise Boom("first broken")
        return {"steps": ["first"]}

    def second(_: Any) -> Any:
        calls.append("second")
        begun.set()
        stopped.wait()  # because of the first
        raise Boom("second broken")

    def handle(_: Any, error: NodeError) -> Any:
        calls.append("handler")
        return {"steps": [f"handled {error.node}: {error.error}"]}

    b = StateGraph(Steps)
    b.add_node("first", first)
    b.add_node("second", second, error_handler=handle)
    b.add_edge(START, "first")
    b.add_edge(START, "second")
    g = b.compile(checkpointer=t.saver)
    runner._panic_or_proceed = stop
    with at_once():
        try:
            g.invoke({"steps": []}, t.config(), durability=t.durability)
        except Boom as e:
            t.error(e)
    runner._panic_or_proceed = raises
    t.put(calls=calls)
    t.state(g)
    broken["now"] = False
    t.run(g, None)
    t.put(calls=calls)
    t.history(g)


@scenario()
def drain_seen(t: Trace) -> None:
    control = RunControl()

    def sees(_: Any, runtime: Runtime) -> Any:
        before = runtime.drain_requested
        control.request_drain("stop")
        return {"steps": [f"{before} {runtime.drain_requested} {runtime.drain_reason}"]}

    b = StateGraph(Steps)
    b.add_node("sees", sees)
    b.add_node("next", adds("next"))
    g = in_line(b, "sees", "next").compile(checkpointer=t.saver)
    t.run(g, {"steps": []}, control=control)
    t.state(g)
    t.run(g, None)
    t.history(g)
