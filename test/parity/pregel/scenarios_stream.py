"""What the streams show, messages and tasks' metadata; see scenarios.py."""

import itertools
from typing import Annotated, Any, TypedDict

import langgraph.pregel._messages as messagesmod
from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, Overwrite, Send

from harness import Trace
from scenarios import Steps, adds, line, scenario
from scenarios_state import in_line

EVERY = ["values", "updates", "custom", "messages", "checkpoints", "tasks", "debug"]


class Chat(TypedDict):
    messages: Annotated[list, add_messages]


def number_ids() -> None:
    """Names messages in the order in which they come."""
    ids = itertools.count()
    messagesmod.uuid4 = lambda: f"id-{next(ids)}"  # type: ignore[assignment]


def says(*messages: Any) -> Any:
    return lambda _: {"messages": list(messages)}


@scenario()
def many_writes(t: Trace) -> None:
    b = StateGraph(Steps)
    b.add_node("one", lambda _: [Command(update={"steps": ["one.0"]}), {"steps": ["one.1"]}, {"steps": ["one.2"]}])
    b.add_node("two", adds("two"))
    g = in_line(b, "one", "two").compile(checkpointer=t.saver)
    t.run(g, {"steps": ["input"]}, modes=EVERY)
    t.history(g)


@scenario()
def messages_of_nodes(t: Trace) -> None:
    inner = StateGraph(Chat)
    inner.add_node("deep", says(AIMessage("deep", id="m4")))
    b = StateGraph(Chat)
    b.add_node("bot", says(AIMessage("one", id="m1"), AIMessage("two", id="m2")))
    b.add_node("echo", lambda s: {"messages": [*s["messages"], AIMessage("three", id="m3")]})
    b.add_node("sub", in_line(inner, "deep").compile())
    b.add_node("steer", lambda _: Command(update={"messages": [AIMessage("five", id="m5")]}, goto="both"))
    b.add_node("both", lambda _: [Command(update={"messages": AIMessage("six", id="m6")}), {"messages": [AIMessage("seven", id="m7")]}])
    b.add_node("late", says(AIMessage("two again", id="m2"), RemoveMessage(id="m1")))
    in_line(b, "bot", "echo", "sub", "steer")
    b.add_edge("both", "late")
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"messages": [HumanMessage("hi", id="m0")]}, modes=EVERY)
    t.state(g)
    t.run(g, {"messages": HumanMessage("more", id="m8")}, modes=["messages"])
    t.run(g, {"messages": []}, modes=["messages", "updates"])
    t.history(g)


class Parrot(BaseChatModel):
    """A model that says two words, in two parts."""

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for part in ("po", "lly"):
            position = "last" if part == "lly" else None
            chunk = ChatGenerationChunk(message=AIMessageChunk(part, id=f"p{len(messages)}", chunk_position=position))
            if run_manager:
                run_manager.on_llm_new_token(part, chunk=chunk)
            yield chunk

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        return generate_from_stream(self._stream(*args, **kwargs))


@scenario()
def messages_in_parts(t: Trace) -> None:
    def speak(s: Any) -> Any:
        said = Parrot().invoke(s["messages"])
        return {"messages": [AIMessage(said.content, id=said.id), AIMessage("done", id=f"d{len(s['messages'])}")]}

    inner = in_line(StateGraph(Chat).add_node("inner", speak), "inner").compile()
    b = StateGraph(Chat)
    b.add_node("speak", speak)
    b.add_node("sub", inner)
    g = in_line(b, "speak", "sub").compile(checkpointer=t.saver)
    for t.flat in (False, True):
        t.run(g, {"messages": [HumanMessage("hi", id=f"m{t.flat}")]}, modes=["messages", "updates", "custom"])


@scenario()
def messages_without_ids(t: Trace) -> None:
    number_ids()
    b = StateGraph(Chat)
    b.add_node("bot", says(AIMessage("one"), AIMessage("two", id="m2"), AIMessage("three")))
    b.add_node("steer", lambda _: Command(update={"messages": AIMessage("four")}, goto="late"))
    b.add_node("late", says(AIMessage("five")))
    g = in_line(b, "bot", "steer").compile(checkpointer=t.saver)
    t.run(g, {"messages": [HumanMessage("hi", id="m0")]}, modes=["messages", "updates", "tasks"])
    t.state(g)


@scenario()
def functional_messages(t: Trace) -> None:
    @task
    def ask_model(text: str) -> AIMessage:
        return AIMessage(text, id=text)

    @task
    def outer_call(text: str) -> list:
        return [ask_model(text).result(), AIMessage("outer", id="outer")]

    @entrypoint(checkpointer=t.saver)
    def flow(text: str) -> Any:
        first = ask_model(text).result()
        return [first, *outer_call(text + "2").result(), AIMessage("last", id="last")]

    t.run(flow, "m1", modes=["messages", "updates"])


@scenario()
def messages_to_packets(t: Trace) -> None:
    m = [AIMessage(str(i), id=f"m{i}") for i in range(6)]
    b = StateGraph(Chat)
    b.add_node("one", lambda _: {"messages": [m[1], m[2]]})
    b.add_node("two", lambda _: {"messages": [m[2], m[3]]})
    b.add_node("odd", lambda _: {"messages": m[4], "other": [m[5]]})
    b.add_node("bare", lambda _: None)
    b.add_conditional_edges(START, lambda _: [Send("one", {"x": m[1]}), Send("two", [m[3]]), Send("odd", m[4]), Send("bare", {})], ["one", "two", "odd", "bare"])
    g = b.compile(checkpointer=t.saver)
    t.run(g, {"messages": [m[0]]}, modes=["messages", "updates"])


@scenario("sync")
def messages_removed(t: Trace) -> None:
    b = StateGraph(Chat)
    b.add_node("bot", says(AIMessage("one", id="m1"), AIMessage("two", id="m2")))
    b.add_node("end", says(AIMessage("three", id="m3")))
    g = in_line(b, "bot", "end").compile(checkpointer=t.saver)
    t.run(g, {"messages": [HumanMessage("hi", id="m0")]})
    t.update(g, t.config(), {"messages": [RemoveMessage(id="m1")]})
    t.state(g)
    t.update(g, t.config(), {"messages": [RemoveMessage(id="m2"), AIMessage("changed", id="m3")]}, as_node="bot")
    t.run(g, None)
    t.update(g, t.config(), {"messages": RemoveMessage(id="__remove_all__")}, as_node="end")
    t.history(g)


@scenario("sync")
def debug_of_updates(t: Trace) -> None:
    g = line(t, ["one", "two", "three"])
    t.run(g, {"steps": ["in"]}, modes=["debug"])
    h = t.history(g)
    again = t.update(g, h[2].config, None)  # after one
    t.run(g, None, again, modes=["debug"])
    t.history(g)
    first = t.update(g, h[3].config, {"steps": ["patched"]}, as_node="__start__")
    t.run(g, None, first, modes=["debug"])
    t.history(g)


@scenario()
def task_metadata(t: Trace) -> None:
    t.metadata = True
    inner = StateGraph(Steps)
    inner.add_node("i", adds("i"), metadata={"of": "i"})
    b = StateGraph(Steps)
    b.add_node("a", adds("a"), metadata={"of": "a", "langgraph_step": 7})
    b.add_node("sub", in_line(inner, "i").compile(), metadata={"of": "sub", "more": [1]})
    b.add_node("c", adds("c"))
    b.add_edge("sub", "c")
    b.add_conditional_edges("sub", lambda _: [Send("c", {"steps": []})], ["c"])
    g = in_line(b, "a", "sub").compile(checkpointer=t.saver)
    c = t.config(user="u", __private="p", n=3)
    c["metadata"] = {"who": "me", "thread_id": "other", "checkpoint_ns": "x"}
    c["tags"] = ["t1", "seq:step:2", "t2"]
    t.run(g, {"steps": []}, c)
    t.run(g, {"steps": []}, modes=["debug", "messages"])


class DeltaChat(TypedDict):
    messages: Annotated[list, DeltaChannel(_messages_delta_reducer)]


@scenario()
def delta_messages(t: Trace) -> None:
    number_ids()
    b = StateGraph(DeltaChat)
    b.add_node("bot", lambda _: {"messages": [AIMessage("one"), AIMessage("two", id="m2")]})
    b.add_node("dict", lambda _: {"messages": {"role": "ai", "content": "three"}})
    b.add_node("dicts", lambda _: {"messages": [{"role": "user", "content": "four"}, {"type": "ai", "content": "five", "id": "m5"}]})
    b.add_node("gone", says(RemoveMessage(id="m2"), RemoveMessage(id="nobody")))
    g = in_line(b, "bot", "dict", "dicts", "gone").compile(checkpointer=t.saver)
    t.run(g, {"messages": [HumanMessage("hi")]})
    t.state(g)
    t.state(g)
    t.run(g, {"messages": HumanMessage("more")})
    if t.durability == "sync":
        t.update(g, t.config(), {"messages": [AIMessage("update")]}, as_node="gone")
        t.update(g, t.config(), {"messages": Overwrite([HumanMessage("reset"), {"role": "ai", "content": "again"}])}, as_node="gone")
    t.state(g)
    t.history(g)
