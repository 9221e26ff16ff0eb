"""Runs a graph of random_graphs.py with LangGraph; see random_test.go."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.channels import AnyValue, DeltaChannel, EphemeralValue, LastValue, Topic, UntrackedValue
from langgraph.config import get_config, get_stream_writer
from langgraph.errors import InvalidUpdateError
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, RetryPolicy, Send, StateUpdate, interrupt

from harness import Boom, Trace


def state_of(keys: dict[str, str], frequency: int) -> Any:
    def fold(s: list, ws: list) -> list:
        return s + [x for w in ws for x in w]

    of = {
        "any": lambda: Annotated[str, AnyValue],
        "delta": lambda: Annotated[list, DeltaChannel(fold, snapshot_frequency=frequency)],
        "eph": lambda: Annotated[str, EphemeralValue],
        "last": lambda: Annotated[str, LastValue],
        "list": lambda: Annotated[list[str], operator.add],
        "sum": lambda: Annotated[int, operator.add],
        "topic": lambda: Annotated[str, Topic(str)],
        "topic_all": lambda: Annotated[str, Topic(str, True)],
        "untracked": lambda: Annotated[str, UntrackedValue],
    }
    return TypedDict("State", {k: of[kind]() for k, kind in keys.items()})  # type: ignore[operator]


def told(v: Any) -> str:
    """A word for what a node was given."""
    if not isinstance(v, dict):
        return str(v)
    return ",".join(f"{k}{len(x) if isinstance(x, list) else x}" for k, x in sorted(v.items()))


def plain(pairs: list | None) -> Any:
    if pairs is None:
        return None
    return {k: Overwrite(v["$overwrite"]) if isinstance(v, dict) else v for k, v in pairs}


def nodes(names: list[str]) -> Any:
    return "*" if names == ["*"] else names


def place(to: Any) -> Any:
    return Send(to["send"], to["arg"]) if isinstance(to, dict) else to


class Run:
    def __init__(self, t: Trace, spec: dict) -> None:
        self.t, self.spec = t, spec
        self.state = state_of(spec["keys"], spec["frequency"])
        self.calls: dict[str, int] = {}
        self.waiting: list[str] | None = None  # the ids of the questions that were shown
        self.taken: dict[str, str] = {}  # which questions took the answers to these
        self.given: set[tuple] = set()  # all answers, with the questions that took them
        self.stray = False  # an answer went to another one
        self.handled: dict[str, int] = {}  # how often the handler of a task has ended, by its id
        self.refused = False  # an update was
        self.graph = self.build(spec["graph"], "", checkpointer=t.saver)

    def build(self, g: dict, path: str, **compile: Any) -> Any:
        b = StateGraph(self.state)
        for n in g["nodes"]:
            kw: dict[str, Any] = {"defer": True} if n.get("defer") else {}
            if n.get("retries", 1) > 1:
                kw["retry_policy"] = RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=n["retries"], retry_on=Boom)
            if n.get("handler"):
                kw["error_handler"] = self.handler(n)
            b.add_node(n["name"], self.body(n, path + n["name"]), **kw)
        for source, to in g["edges"]:
            b.add_edge(source, to)
        for sources, to in g["joins"]:
            b.add_edge(sources, to)
        for i, br in enumerate(g["branches"]):
            b.add_conditional_edges(br["from"], self.path(br, i))
        return b.compile(interrupt_before=nodes(g["before"]), interrupt_after=nodes(g["after"]), **compile)

    def path(self, br: dict, i: int) -> Any:
        def choose(s: Any) -> Any:
            n = s.get("n", 0) if br["by"] == "n" else len(s.get("steps", []))
            return [place(w) for w in br["ways"][n % len(br["ways"])]]

        choose.__name__ = f"branch{i}"
        return choose

    def handler(self, n: dict) -> Any:
        def handle(_: Any) -> Any:
            out = plain(n["handler"])
            if n.get("handler_asks"):
                out["steps"] = [self.ask(f"h{n['name']}?")]
            id = get_config()["configurable"]["__pregel_task_id"]
            self.handled[id] = self.handled.get(id, 0) + 1
            return out

        return handle

    def body(self, n: dict, path: str) -> Any:
        if n.get("sub"):
            sub = self.build(n["sub"], path + ".", **({"checkpointer": True} if n["sub"]["stable"] else {}))
            if not n.get("calls"):
                return sub

            def call(v: Any) -> Any:
                out = []
                for i in range(n["calls"]):
                    out += sub.invoke({"n": i, "steps": [told(v)]})["steps"][-2:]
                return {"steps": out}

            return call

        calls = [self.call(n["name"], i, c) for i, c in enumerate(n.get("tasks", []))]

        def f(v: Any) -> Any:
            if n["emits"]:
                get_stream_writer()(f"{path} {told(v)}")
            called = [c(f"{n['name']}{i}").result() for i, c in enumerate(calls)]
            answers = [self.ask(f"{n['name']}{i}?") for i in range(n["asks"])]
            self.calls[path] = self.calls.get(path, 0) + 1
            if self.calls[path] <= n.get("fails", 0):
                raise Boom(f"{n['name']} failed")
            out = plain(n["update"])
            if isinstance(out.get("steps"), list):
                out["steps"] = [f"{n['name']}({told(v)})", *called, *map(str, answers)]
            goto = [place(g) for g in n.get("goto", [])]
            if n["returns"] == "none":
                return None
            if n["returns"] == "dict":
                return out
            if n["returns"] == "send":
                return goto[0]
            c = Command(update=out, goto=goto, **({"graph": Command.PARENT} if n.get("parent") else {}))
            return c if n["returns"] == "command" else [c, {"steps": ["more"]}]

        return f

    def call(self, name: str, i: int, c: dict) -> Any:
        @task(name=f"{name}_below")
        def below(v: str) -> str:
            return v + "!"

        @task(name=f"{name}_call{i}")
        def call(v: str) -> str:
            out = below(v).result() if c["below"] else v
            return out + str(self.ask(v + "?")) if c["asks"] else out

        return call

    def ask(self, question: str) -> Any:
        answer = interrupt(question)
        where = get_config()["configurable"]["checkpoint_ns"]
        if self.op["op"] == "go_on" and answer == f"r{self.op['pick']}" and self.waiting is not None:
            id = Interrupt.from_ns("", where).id
            self.stray = self.stray or id not in self.waiting or self.taken.setdefault(id, question) != question
        elif self.waiting is not None:  # an earlier one is that of this question
            self.stray = self.stray or (where, question, answer) not in self.given
        self.given.add((where, question, answer))
        return answer

    def differs(self) -> bool:
        """Whether the program met what stele does otherwise whatever the options are: an answer
        that goes to a question that was not shown, a handler that ended and runs again, and an update
        that is refused after its writes were stored."""
        again = any(n > 1 for n in self.handled.values()) and "k_delta" in self.spec["keys"]
        return self.stray or again or self.refused

    def config(self, config: dict | None = None) -> dict:
        return {**(config or self.t.config()), "recursion_limit": 9}

    def run(self, input: Any, config: dict | None = None) -> None:
        kw = {f"interrupt_{k}": nodes(self.op[k]) for k in ("before", "after") if k in self.op}
        of_trace = self.t.durability
        if of_trace == "sync":
            self.t.durability = self.op.get("durability", of_trace)
        self.t.run(self.graph, input, self.config(config), **kw)
        self.t.durability = of_trace

    def picked(self, op: dict) -> dict:
        """The address of some checkpoint of the thread."""
        history = list(self.graph.get_state_history(self.t.config()))
        return history[op["pick"] % len(history)].config

    def play(self) -> None:
        for op in self.spec["script"]:
            self.op = op
            self.t.put(op=op["op"])
            self.guarded(getattr(self, "op_" + op["op"]), op)
        self.t.put(op="end")
        self.guarded(lambda _: self.t.history(self.graph), {})

    def guarded(self, do: Any, op: dict) -> None:
        """A state that cannot be shown ends the operation."""
        try:
            do(op)
        except InvalidUpdateError as e:
            self.t.error(e)

    def op_run(self, op: dict) -> None:
        self.run(plain(op["input"]))

    def op_state(self, op: dict) -> None:
        self.t.state(self.graph, subgraphs=op["pick"] % 2 == 0)

    def op_go_on(self, op: dict) -> None:
        state = self.t.state(self.graph)
        ids = list(dict.fromkeys(i.id for i in state.interrupts))
        self.waiting, self.taken, answer = ids or None, {}, f"r{op['pick']}"
        goto = [place(g) for g in op.get("goto", [])]
        if not ids and not state.next and op.get("stray"):
            self.run(Command(resume=answer))
        elif not ids or op["how"] == "none":
            self.run(None)
        elif op["how"] == "value":
            self.run(Command(resume=answer, update=plain(op["update"]), goto=goto))
        elif op["how"] == "one":
            self.run(Command(resume={ids[op["pick"] % len(ids)]: answer}))
        else:
            self.run(Command(resume={i: answer for i in ids}, update=plain(op["update"]), goto=goto))

    def op_update(self, op: dict) -> None:
        at = self.t.config() if op["at_head"] else self.picked(op)
        out = self.t.update(self.graph, at, plain(op["values"]), as_node=op["as"])
        if op["run"]:
            self.run(None, out)

    def op_bulk(self, op: dict) -> None:
        steps = [[StateUpdate(plain(op["values"]), op["as"]), StateUpdate(plain(op["more"]), op["as2"])], [StateUpdate(plain(op["more"]), op["as"])]]
        try:
            out = self.graph.bulk_update_state(self.t.config(), steps)
        except Exception as e:  # noqa: BLE001
            self.refused = True
            self.t.error(e)
            return
        self.t.put(updated=out["configurable"]["checkpoint_id"])
        if op["run"]:
            self.run(None)

    def op_copy(self, op: dict) -> None:
        more = [(plain(op["values"]), op["as"])] if op["pick"] % 2 else None
        if op.get("map"):
            more = plain(op["values"]) or {}
        out = self.t.update(self.graph, self.picked(op), more, as_node="__copy__")
        if op["run"]:
            self.run(None, out)

    def op_clear(self, op: dict) -> None:
        self.t.update(self.graph, self.t.config(), None, as_node=END)
        self.t.state(self.graph)

    def op_input(self, op: dict) -> None:
        self.t.update(self.graph, self.t.config(), plain(op["input"]), as_node="__input__")
        self.run(None)

    def op_replay(self, op: dict) -> None:
        self.run(None, self.picked(op))

    def op_branch(self, op: dict) -> None:
        self.run(plain(op["input"]), self.picked(op))

    def op_command(self, op: dict) -> None:
        self.run(Command(goto=[place(g) for g in op["goto"]], update=plain(op["update"])))

    def op_inside(self, op: dict) -> None:
        s = self.graph.get_state(self.picked(op) if op["pick"] % 3 == 0 else self.t.config(), subgraphs=True)
        configs = [x.state.config for x in s.tasks if x.state is not None and x.state.config["configurable"].get("checkpoint_id")]
        if configs:
            self.run(None, configs[op["pick"] % len(configs)])
