"""Records what LangChain's create_agent does with scripted models, for the tests of package agent.

    python -m venv venv && venv/bin/pip install -r ../../test/parity/requirements.txt
    venv/bin/python record.py [directory]

It writes agent.json.gz into the directory, or beside itself: each scenario, and its trace. The tools,
the middleware and the forms here have twins in parity_test.go.
"""

import gzip
import json
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain.agents import middleware as mw
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ModelAPIError, ModelAuthenticationError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt, Overwrite, Send
from typing_extensions import TypedDict

from scenarios import SCENARIOS

here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


ASKED = []


class Boom(Exception):
    pass


class Denied(ModelAuthenticationError):
    pass


class Busy(ModelAPIError):
    pass


class Script(BaseChatModel):
    answers: list
    label: str = "main"
    tools: list = []
    kwargs: dict = {}

    @property
    def _llm_type(self):
        return "script"

    def bind_tools(self, tools, **kwargs):
        return self.model_copy(update={"tools": [t.name for t in tools], "kwargs": kwargs})

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        kwargs = {**self.kwargs, **kwargs}
        entry = {"model": self.label, "tools": self.tools, "choice": kwargs.get("tool_choice") or "",
                 "format": (kwargs.get("response_format") or {}).get("json_schema", {}).get("name", "")}
        entry["messages"] = [] if self.label == "summary" else [[m.type, m.text] for m in messages]
        ASKED.append(entry)
        a = self.answers.pop(0)
        if "error" in a:
            raise {"denied": Denied, "busy": Busy}.get(a["error"], Boom)(a["error"])
        m = AIMessage(content=a.get("text", ""), tool_calls=[{**c, "type": "tool_call"} for c in a.get("calls", [])],
                      invalid_tool_calls=[{**c, "type": "invalid_tool_call", "error": None} for c in a.get("invalid", [])])
        if "usage" in a:
            m.usage_metadata = {"input_tokens": a["usage"], "output_tokens": 0, "total_tokens": a["usage"]}
        if "provider" in a:
            m.response_metadata["model_provider"] = a["provider"]
        return ChatResult(generations=[ChatGeneration(message=m)])


def make_tools(names):
    failures = {"n": 0}

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @tool
    def echo(text: str) -> str:
        """Echoes."""
        return text

    @tool(return_direct=True)
    def final(text: str) -> str:
        """Ends."""
        return text

    @tool
    def fail(text: str) -> str:
        """Fails."""
        raise Boom(text)

    @tool
    def flaky(text: str) -> str:
        """Fails twice."""
        failures["n"] += 1
        if failures["n"] < 3:
            raise Boom(text)
        return text

    @tool
    def ask(text: str) -> str:
        """Asks."""
        from langgraph.types import interrupt
        return "said " + interrupt(text)

    @tool
    def topic(text: str) -> Any:
        """Sets the topic."""
        from langgraph.types import Command
        return [Command(update={"topic": text, "messages": [ToolMessage("set", tool_call_id="c0", name="topic")]})]

    have = {t.name: t for t in [add, echo, final, fail, flaky, ask, topic]}
    return [have[n] for n in names]


class City(TypedDict):
    """A city."""
    name: str


class Land(TypedDict):
    """A land."""
    name: str


def make_response(r):
    if r is None:
        return None
    forms = {"City": City, "Land": Land}
    errors = {"default": True, "text": "try again", "stop": False, "fixed": (lambda e: "does not fit")}[r.get("errors", "fixed")]
    if r["strategy"] == "provider":
        return ProviderStrategy(forms[r["forms"][0]])
    schema = forms[r["forms"][0]]
    if len(r["forms"]) == 2:
        from typing import Union
        schema = Union[City, Land]
    return ToolStrategy(schema, tool_message_content=r.get("answer"), handle_errors=errors)


class Hooks(mw.AgentMiddleware):
    """Says where it is, and jumps or adds an update if it is told to."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec

    @property
    def name(self):
        return self.spec["name"]


def hook(which):
    def run(self, state, runtime):
        on = self.spec["on"].get(which, {})
        out = {}
        last = state["messages"][-1]
        if "when" in on and on["when"] not in last.text:
            return None
        if "say" in on:
            out["messages"] = [(HumanMessage if on.get("as") == "human" else AIMessage)(on["say"])]
        if "jump" in on:
            out["jump_to"] = on["jump"]
        return out or None
    return run


def make_hooks(spec):
    members = {}
    for which in spec["on"]:
        if which in ("before_agent", "before_model", "after_model", "after_agent"):
            f = hook(which)
            if spec.get("jumps"):
                f = mw.hook_config(can_jump_to=spec["jumps"])(f)
            members[which] = f
    if "wrap_model" in spec["on"]:
        def wrap_model_call(self, request, handler):
            on = spec["on"]["wrap_model"]
            if "system" in on:
                from langchain_core.messages import SystemMessage
                request = request.override(system_message=SystemMessage(on["system"]))
            if "tools" in on:
                request = request.override(tools=[t for t in request.tools if t.name in on["tools"]])
            if "forms" in on:
                request = request.override(response_format=make_response({"strategy": "tool", "forms": on["forms"]}))
            if "answer" in on:
                return AIMessage(on["answer"])
            res = handler(request)
            if on.get("twice"):
                res = handler(request)
            if "suffix" in on:
                res.result = [m.model_copy(update={"content": m.content + on["suffix"]}) for m in res.result]
            if "update" in on or "say" in on:
                update = dict(on.get("update", {}))
                if "say" in on:
                    update["messages"] = [HumanMessage(on["say"])]
                return ExtendedModelResponse(model_response=res, command=Command(update=update))
            return res
        members["wrap_model_call"] = wrap_model_call
    if "wrap_tool" in spec["on"]:
        def wrap_tool_call(self, request, handler):
            on = spec["on"]["wrap_tool"]
            if "answer" in on:
                return ToolMessage(on["answer"], name=request.tool_call["name"], tool_call_id=request.tool_call["id"])
            m = handler(request)
            return m.model_copy(update={"content": on["prefix"] + m.content})
        members["wrap_tool_call"] = wrap_tool_call
    return type("Hooks_" + spec["name"], (Hooks,), members)(spec)


def make_middleware(spec):
    kind, o = spec["kind"], spec.get("options", {})
    if kind == "human":
        gates = {k: (True if not v else {"allowed_decisions": v}) for k, v in o["tools"].items()}
        for k, texts in o.get("when", {}).items():
            gates[k] = {"allowed_decisions": ["approve", "edit", "reject", "respond"], "when": lambda r, texts=texts: r.tool_call["args"]["text"] in texts}
        if o.get("per call"):
            return mw.HumanInTheLoopMiddleware(gates, interrupt_mode="per_call")
        return mw.HumanInTheLoopMiddleware(gates, **({"edit_notice": o["notice"] or None} if "notice" in o else {}))
    if kind == "model limit":
        return mw.ModelCallLimitMiddleware(**o)
    if kind == "tool limit":
        return mw.ToolCallLimitMiddleware(**o)
    if kind == "model retry":
        return mw.ModelRetryMiddleware(initial_delay=0, jitter=False, **o)
    if kind == "tool retry":
        return mw.ToolRetryMiddleware(initial_delay=0, jitter=False, **o)
    if kind == "fallback":
        return mw.ModelFallbackMiddleware(*[Script(answers=list(a), label=f"other {i}") for i, a in enumerate(o["models"])])
    if kind == "summary":
        counter = {} if o.get("approximately") else {"token_counter": lambda ms: sum(len(m.text) for m in ms)}
        profile = {"max_input_tokens": o["window"]} if "window" in o else None
        return mw.SummarizationMiddleware(Script(answers=list(o["answers"]), label="summary", profile=profile), trigger=[t if isinstance(t, dict) else tuple(t) for t in o["trigger"]],
                                          keep=tuple(o["keep"]), **counter)
    if kind == "hooks":
        return make_hooks(o)
    raise KeyError(kind)


def shape(schema, defs=None):
    """A schema without its words, and with references to those of tools, which pydantic makes, replaced."""
    if isinstance(schema, list):
        return [shape(s, defs) for s in schema]
    if not isinstance(schema, dict):
        return schema
    defs = defs or schema.get("$defs", {})
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name in defs and not name.endswith(("Decision", "Action")):
        return shape(defs[name], defs)
    out = {k: shape(s, defs) for k, s in schema.items() if k not in ("title", "description")}
    if "$defs" in out:
        out["$defs"] = {k: s for k, s in out["$defs"].items() if k.endswith(("Decision", "Action"))}
    return out


class Trace:
    def __init__(self):
        self.ids = {}

    def asked(self, value, schema, ids=False):
        """A question, with its schema if it has one."""
        value = self.show(value, ids)
        return {"question": value, "schema": shape(schema)} if schema else value

    def show(self, v, ids=True):
        if isinstance(v, BaseMessage):
            d = {k: x for k, x in v.model_dump().items() if x not in (None, {}, [], "") or k == "content"}
            if "id" in d and d["id"] != "__remove_all__":
                if ids:
                    d["id"] = self.ids.setdefault(d["id"], f"m{len(self.ids)}")
                else:
                    del d["id"]
            return d
        if isinstance(v, Send):
            return {"send": v.node, "arg": self.show(v.arg, ids)}
        if isinstance(v, Interrupt):
            return {"interrupt": self.asked(v.value, v.response_schema, ids)}
        if isinstance(v, dict):
            return {k: self.show(x, ids) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return [self.show(x, ids) for x in v]
        return v


class Supersteps:
    """The events of a run. Tasks of one superstep run side by side, so their events have no order: between
    two events of mode values that ask nothing they are sorted. A message is shown once, whether it comes whole or in chunks."""

    def __init__(self, trace):
        self.trace, self.all, self.values, self.heard = trace, [[]], {}, {}

    def add(self, mode, event):
        show = lambda v: self.trace.show(v, ids=False)
        if mode == "values":
            out = dict(event)
            asked = out.pop("__interrupt__", ())
            if out:
                self.values = out
            values = ["values", show(out), [self.trace.asked(i.value, i.response_schema) for i in asked]]
            if asked:  # other tasks may still be at work
                self.all[-1].append(values)
            else:
                self.all += [[values], []]
        elif mode == "updates":
            for node, update in event.items():
                asked = node == "__interrupt__"
                self.all[-1].append(["updates", node, [self.trace.asked(i.value, i.response_schema) for i in update] if asked else show(update)])
        elif mode == "messages":
            message, where = event
            at = [where["langgraph_node"], where["langgraph_step"], list(where["langgraph_path"])]
            if message.id in self.heard:
                self.heard[message.id][2] += message.text
                return
            self.heard[message.id] = ["messages", at, message.text]
            self.all[-1].append(self.heard[message.id])
        elif "triggers" in event:
            self.all[-1].append(["task", event["name"], show(event["input"]), list(event["triggers"])])
        else:
            self.all[-1].append(["ended", event["name"], bool(event["error"]), show(event["result"]), [self.trace.asked(i["value"], i.get("response_schema")) for i in event["interrupts"]]])

    def failed(self):
        # Which other tasks of the superstep were heard of before the failure is chance.
        self.all[-1] = [e for e in self.all[-1] if e[0] == "task" or e[0] == "ended" and e[2]]

    def shown(self):
        return [sorted(some, key=json.dumps) for some in self.all if some]


class Extra(mw.AgentState):
    topic: str


def run(s):
    ASKED.clear()
    model = Script(answers=list(s["model"]), profile={"structured_output": True} if s.get("structured") else None)
    saver = InMemorySaver()
    g = create_agent(model, make_tools(s.get("tools", [])), system_prompt=s.get("system"), name=s.get("name of agent"),
                     middleware=[make_middleware(m) for m in s.get("middleware", [])],
                     response_format=City if s.get("auto") else make_response(s.get("response")),
                     state_schema=Extra if s.get("state") else None, checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}
    trace = Trace()
    outcomes = []
    for r in s["runs"]:
        if "resume each" in r:  # a decision for each question that waits, or None
            waiting = g.get_state(config).interrupts
            what = Command(resume={i.id: d for i, d in zip(waiting, r["resume each"], strict=True) if d})
        elif "resume" in r:
            what = Command(resume=r["resume"])
        elif "again" in r:
            what = None
        else:
            what = {"messages": [HumanMessage(r["say"], id=r["id"])], **r.get("state", {})}
        supersteps = Supersteps(trace)
        try:
            for mode, event in g.stream(what, config, durability="sync", stream_mode=["values", "updates", "messages", "tasks"]):
                supersteps.add(mode, event)
            out = supersteps.values
            outcomes.append({"keys": sorted(out), "texts": [m.text for m in out["messages"]]})
        except Exception as e:
            supersteps.failed()
            outcomes.append({"error": type(e).__name__})
        outcomes[-1]["events"] = supersteps.shown()
    # Messages are numbered as they come into the state. Whether one that is written has an id
    # already depends, in LangGraph, on which of two threads is first.
    history = [(h, saver.get_tuple(h.config)) for h in reversed(list(g.get_state_history(config)))]
    checkpoints = [{
        "metadata": t.metadata, "next": list(h.next),
        "values": {k: trace.show(v) for k, v in sorted(t.checkpoint["channel_values"].items())},
    } for h, t in history]
    for c, (h, t) in zip(checkpoints, history):
        names = {task.id: (i, task.name) for i, task in enumerate(h.tasks)}
        writes = sorted(((*names.get(task, (-1, "")), i, channel, value) for i, (task, channel, value) in enumerate(t.pending_writes)), key=lambda w: (w[0], w[2]))
        c["writes"] = [[name, channel, "error" if channel == "__error__" else trace.show(value, ids=False)] for _, name, _, channel, value in writes]
    return {"outcomes": outcomes, "checkpoints": checkpoints, "asked": list(ASKED)}


if __name__ == "__main__":
    out = []
    for s in SCENARIOS:
        out.append({"scenario": s, "trace": run(s)})
    text = "[\n" + ",\n".join(json.dumps(x, ensure_ascii=False, sort_keys=True) for x in out) + "\n]\n"
    with open(os.path.join(here, "agent.json.gz"), "wb") as f, gzip.GzipFile(filename="", fileobj=f, mode="wb", mtime=0) as z:
        z.write(text.encode())
    print(len(out), "scenarios")
