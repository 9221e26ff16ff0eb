"""Records what LangGraph's ToolNode answers, for the tests of package tool.

    python -m venv venv && venv/bin/pip install -r ../../test/parity/requirements.txt
    venv/bin/python record.py [directory]

It writes node.json into the directory, or beside itself. The tools here have twins in node_test.go.
"""

import json
import os
import random
import sys
from typing import Annotated

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


class Failure(Exception):
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    __repr__ = __str__


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def echo(text: str) -> str:
    """Echoes."""
    return text


@tool
def shape(kind: str):
    """Returns values of many kinds."""
    return {
        "dict": {"a": 1, "b": [1.5, None, True, "é\n\""]}, "none": None, "float": 1.5, "bool": True, "list": [1, 2], "texts": ["a", "b"], "empty": [],
        "blocks": [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}], "odd": [{"type": "odd"}], "mixed": [{"type": "text", "text": "a"}, "b"],
    }[kind]


@tool(response_format="content_and_artifact")
def artifact(text: str):
    """Returns an artifact."""
    return text, {"n": 1}


@tool
def fail(text: str) -> str:
    """Fails."""
    raise Failure(text)


def command_of(kind, id):
    m = ToolMessage("done", tool_call_id=id)
    return {
        "state": Command(update={"messages": [m], "topic": "t"}),
        "goto": Command(update={"messages": [m]}, goto="next"),
        "none": Command(goto="next"),
        "unanswered": Command(update={"topic": "t"}),
        "parent": Command(graph=Command.PARENT, goto=[Send("x", 1)]),
        "parent-update": Command(graph=Command.PARENT, update={"topic": "t"}, goto="x"),
        "list": Command(update=[m]),
        "clear": Command(update={"messages": [RemoveMessage("__remove_all__")]}),
        "described": Command(update={"messages": [{"role": "tool", "content": "done", "tool_call_id": id}]}),
        "many": [m, Command(update={"topic": "t"})],
        "many-twice": [m, Command(update={"messages": [m]})],
        "many-none": [Command(update={"topic": "t"})],
        "message": m,
        "human": HumanMessage("hi"),
    }[kind]


@tool
def command(kind: str, id: Annotated[str, InjectedToolCallId]):
    """Returns a Command."""
    return command_of(kind, id)


TOOLS = [add, echo, shape, artifact, fail, command]
MODES = {"default": None, "answer": True, "stop": False, "text": "went wrong"}


def compact(m):
    return {k: v for k, v in m.model_dump().items() if v not in (None, {}, [], "") or k == "content"}


def show(v):
    if isinstance(v, Command):
        goto = v.goto
        if isinstance(goto, list):
            goto = [{"node": s.node, "arg": s.arg} for s in goto]
        return {"command": {"graph": v.graph, "update": show(v.update), "goto": goto or None}}
    if isinstance(v, (ToolMessage, RemoveMessage, HumanMessage)):
        return {"message": compact(v)}
    if isinstance(v, dict) and "role" in v:
        return {"message": {"type": "tool", **{k: x for k, x in v.items() if k != "role"}}}
    if isinstance(v, dict):
        return {"state": {k: show(x) for k, x in v.items()}}
    if isinstance(v, list):
        return [show(x) for x in v]
    return v


def call(name, args, id):
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def scenario(name, calls, mode="default", form="state"):
    kw = {} if MODES[mode] is None else {"handle_tool_errors": MODES[mode]}
    node = ToolNode(TOOLS, **kw)
    ai = AIMessage("", tool_calls=calls)
    value = {"state": {"messages": [HumanMessage("hi"), ai, HumanMessage("later")]}, "list": [ai], "calls": calls}[form]
    out = {"name": name, "calls": calls, "mode": mode, "form": form}
    try:
        # a node is called within a graph
        result = node.invoke(value, config={"configurable": {"__pregel_runtime": Runtime()}})
        out["out"] = show(result)
    except Exception as e:
        out["error"] = type(e).__name__
    return out


rnd = random.Random(7)
cases = []
for form in ("state", "list", "calls"):
    for kind in ("dict", "none", "float", "bool", "list", "texts", "empty", "blocks", "odd", "mixed"):
        cases.append(scenario(f"shape {kind}", [call("shape", {"kind": kind}, "c1")], form=form))
    for kind in ("state", "goto", "none", "unanswered", "parent", "parent-update", "list", "clear", "described", "many", "many-twice", "many-none", "message", "human"):
        for mode in ("default", "text"):
            cases.append(scenario(f"command {kind}", [call("command", {"kind": kind}, "c1")], mode=mode, form=form))
    cases.append(scenario("two parents", [call("command", {"kind": "parent"}, "c1"), call("echo", {"text": "x"}, "c2"), call("command", {"kind": "parent"}, "c3")], form=form))
    cases.append(scenario("artifact", [call("artifact", {"text": "x"}, "c1")], form=form))
    for mode in MODES:
        cases.append(scenario("unknown", [call("nobody", {"a": "it's"}, "c1"), call("echo", {"text": "x"}, "c2")], mode, form))
        cases.append(scenario("failing", [call("echo", {"text": "x"}, "c1"), call("fail", {"text": "bad"}, "c2")], mode, form))
        cases.append(scenario("bad arguments", [call("add", {"a": "x", "b": 1}, "c1")], mode, form))
        cases.append(scenario("missing argument", [call("add", {"a": 1}, "c1")], mode, form))
for i in range(60):
    calls = []
    for j in range(rnd.randrange(6)):
        calls.append(rnd.choice([
            call("add", {"a": rnd.randrange(9), "b": rnd.randrange(9)}, f"c{j}"), call("echo", {"text": f"t{j}"}, f"c{j}"), call("fail", {"text": f"f{j}"}, f"c{j}"),
            call("nobody", {}, f"c{j}"), call("command", {"kind": rnd.choice(["state", "goto", "parent", "many"])}, f"c{j}"),
        ]))
    form = rnd.choice(["state", "state", "list", "calls"])
    if form == "calls" and not calls:
        form = "state"
    cases.append(scenario("random", calls, rnd.choice(list(MODES)), form))

conditions = []
for messages in (
    [HumanMessage("x")], [AIMessage("x")], [AIMessage("x", tool_calls=[call("f", {}, "1")])], [AIMessage("x", tool_calls=[call("f", {}, "1")]), HumanMessage("y")],
    [ToolMessage("x", tool_call_id="1")], [],
):
    for form in ("state", "list"):
        try:
            out = {"out": tools_condition(messages if form == "list" else {"messages": messages})}
        except Exception as e:
            out = {"error": type(e).__name__}
        conditions.append({"in": [compact(m) for m in messages], "form": form, **out})

with open(os.path.join(here, "node.json"), "w") as f:
    json.dump({"cases": cases, "conditions": conditions}, f, ensure_ascii=False, separators=(",", ":"))
    f.write("\n")
print(len(cases), sum("error" in c for c in cases))
