"""The graphs of the recordings. graphs_test.go has the same in Go, node by node."""

import operator
import time
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolCallTransformer, ToolNode, ToolRuntime
from langgraph.stream.transformers import CustomTransformer
from langgraph.types import Command, Send, interrupt


class Counter(TypedDict, total=False):
    n: Annotated[int, operator.add]
    log: Annotated[list[str], operator.add]


def counter():
    """Three quick nodes."""

    def one(state: Counter):
        return {"n": 1, "log": ["one"]}

    def two(state: Counter):
        return {"n": 10, "log": [f"two saw {state['n']}"]}

    def three(state: Counter):
        return {"n": 100, "log": [f"three saw {state['n']}"]}

    g = StateGraph(Counter)
    g.add_node("one", one)
    g.add_node("two", two)
    g.add_node("three", three)
    g.add_edge(START, "one")
    g.add_edge("one", "two")
    g.add_edge("two", "three")
    g.add_edge("three", END)
    return g.compile()


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Parrot(BaseChatModel):
    """Calls the tool that the last message names, or repeats the message word by word."""

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _words(self, messages):
        last = messages[-1]
        text = last.text() if callable(last.text) else last.text
        if last.type == "human" and text.startswith("weather in "):
            call = {"name": "weather", "args": {"city": text[11:]}, "id": "call-" + text[11:], "type": "tool_call"}
            return [], call
        return ["You ", "said: ", str(text)], None

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        words, call = self._words(messages)
        answer = AIMessage(content="".join(words), tool_calls=[call] if call else [])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        words, call = self._words(messages)
        if call:
            chunk = AIMessageChunk(
                content="",
                tool_call_chunks=[
                    {
                        "name": call["name"],
                        "args": '{"city": "%s"}' % call["args"]["city"],
                        "id": call["id"],
                        "index": 0,
                        "type": "tool_call_chunk",
                    }
                ],
            )
            yield self._shown(chunk, "", run_manager)
        for word in words:
            yield self._shown(AIMessageChunk(content=word), word, run_manager)

    def _shown(self, chunk, word, run_manager):
        generation = ChatGenerationChunk(message=chunk)
        if run_manager:
            run_manager.on_llm_new_token(word, chunk=generation)
        return generation


def agent():
    """A model that calls tools; the tool asks before it answers for Rome."""
    model = Parrot()

    def call_model(state: Chat):
        return {"messages": [model.invoke(state["messages"])]}

    def tools(state: Chat):
        answers = []
        for call in state["messages"][-1].tool_calls:
            city = call["args"]["city"]
            text = "It rains in " + city
            if city == "Rome":
                text = str(interrupt({"question": "The weather of Rome?", "city": city}))
            answers.append(ToolMessage(content=text, name=call["name"], tool_call_id=call["id"]))
        return {"messages": answers}

    def route(state: Chat):
        return "tools" if state["messages"][-1].tool_calls else END

    g = StateGraph(Chat)
    g.add_node("model", call_model)
    g.add_node("tools", tools)
    g.add_edge(START, "model")
    g.add_conditional_edges("model", route, ["tools", END])
    g.add_edge("tools", "model")
    return g.compile()


class Path(TypedDict, total=False):
    path: Annotated[list[str], operator.add]


def nested():
    """A graph in a graph in a graph; the innermost asks."""

    def leaf(state: Path):
        return {"path": ["leaf"]}

    def ask(state: Path):
        return {"path": ["ask:" + str(interrupt("deep?"))]}

    inner = StateGraph(Path)
    inner.add_node("leaf", leaf)
    inner.add_node("ask", ask)
    inner.add_edge(START, "leaf")
    inner.add_edge("leaf", "ask")

    def before(state: Path):
        return {"path": ["before"]}

    middle = StateGraph(Path)
    middle.add_node("before", before)
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "before")
    middle.add_edge("before", "inner")

    def top(state: Path):
        return {"path": ["top"]}

    outer = StateGraph(Path)
    outer.add_node("top", top)
    outer.add_node("middle", middle.compile())
    outer.add_edge(START, "top")
    outer.add_edge("top", "middle")
    return outer.compile()


class Fan(TypedDict, total=False):
    items: list[str]
    item: str
    done: Annotated[list[str], operator.add]


def fanout():
    """A task for each item, by Send."""

    def plan(state: Fan):
        return {"done": ["plan"]}

    def work(state: Fan):
        return {"done": ["did " + state["item"]]}

    def send(state: Fan):
        return [Send("work", {"item": item}) for item in state.get("items", [])]

    g = StateGraph(Fan)
    g.add_node("plan", plan)
    g.add_node("work", work)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", send, ["work"])
    return g.compile()


class Fails(TypedDict, total=False):
    steps: Annotated[list[str], operator.add]
    fail: bool


def error():
    """Fails in its second node, if it is told to."""

    def first(state: Fails):
        return {"steps": ["first"]}

    def second(state: Fails):
        if state.get("fail", True):
            raise ValueError("boom")
        return {"steps": ["second"]}

    g = StateGraph(Fails)
    g.add_node("first", first)
    g.add_node("second", second)
    g.add_edge(START, "first")
    g.add_edge("first", "second")
    return g.compile()


class Slow(TypedDict, total=False):
    steps: Annotated[list[str], operator.add]
    delay: float


def slow():
    """Four nodes, each of which waits for as long as it is told."""
    g = StateGraph(Slow)

    def node(name):
        def wait(state: Slow):
            time.sleep(state.get("delay", 0))
            return {"steps": [name]}

        return wait

    names = ["a", "b", "c", "d"]
    for name in names:
        g.add_node(name, node(name))
    g.add_edge(START, "a")
    for one, two in zip(names, names[1:]):
        g.add_edge(one, two)
    return g.compile()


class Told(TypedDict, total=False):
    text: str


def custom(**compiled):
    """Emits events of its own."""

    def tell(state: Told):
        writer = get_stream_writer()
        writer({"progress": 1})
        writer("half way")
        writer([1, None, {"x": 2.5}])
        if compiled:
            writer({"name": "x", "payload": 1})
            writer({"name": "x", "more": [2]})
            writer({"payload": 3})
        return {"text": "told"}

    g = StateGraph(Told)
    g.add_node("tell", tell)
    g.add_edge(START, "tell")
    return g.compile(**compiled)


def telling():
    """Emits more of them, and clients of version 2 are shown them."""
    return custom(transformers=[CustomTransformer])


class Asked(TypedDict, total=False):
    name: str
    answers: Annotated[list[str], operator.add]


def ask():
    """Two nodes side by side that ask, and one after them that asks twice."""

    def left(state: Asked):
        return {"answers": ["left:" + str(interrupt({"who": "left"}))]}

    def right(state: Asked):
        return {"answers": ["right:" + str(interrupt({"who": "right"}))]}

    def twice(state: Asked):
        one = interrupt("first")
        two = interrupt("second")
        return {"answers": [f"twice:{one}:{two}"]}

    g = StateGraph(Asked)
    g.add_node("left", left)
    g.add_node("right", right)
    g.add_node("twice", twice)
    g.add_edge(START, "left")
    g.add_edge(START, "right")
    g.add_edge(["left", "right"], "twice")
    return g.compile()


def configured():
    """Says what it was configured with."""

    def show(state: Told):
        configurable = get_config()["configurable"]
        return {"text": "style " + str(configurable.get("style", "none"))}

    g = StateGraph(Told)
    g.add_node("show", show)
    g.add_edge(START, "show")
    return g.compile()


class Noted(TypedDict, total=False):
    note: str
    seen: Annotated[list[Any], operator.add]


def notes():
    """Keeps notes in the long-term store."""

    def keep(state: Noted):
        store = get_store()
        store.put(("notes", "all"), state["note"], {"text": state["note"]})
        found = store.search(("notes", "all"))
        return {"seen": [sorted(item.key for item in found)]}

    g = StateGraph(Noted)
    g.add_node("keep", keep)
    g.add_edge(START, "keep")
    return g.compile()


def jump():
    """Goes where its first node says, by Command."""

    def choose(state: Told):
        return Command(update={"text": "chosen"}, goto="far" if state.get("text") == "far" else "near")

    def near(state: Told):
        return {"text": "near"}

    def far(state: Told):
        return {"text": "far"}

    g = StateGraph(Told)
    g.add_node("choose", choose, destinations=("near", "far"))
    g.add_node("near", near)
    g.add_node("far", far)
    g.add_edge(START, "choose")
    return g.compile()


def written():
    """Writes messages without ids, of a person and a model; a graph inside asks a model."""

    def write(state: Chat):
        return {"messages": [AIMessage(content="merely written"), HumanMessage(content="a person")]}

    def say(state: Chat):
        return {"messages": [Parrot().invoke(state["messages"])]}

    inner = StateGraph(Chat)
    inner.add_node("say", say)
    inner.add_edge(START, "say")

    g = StateGraph(Chat)
    g.add_node("write", write)
    g.add_node("inside", inner.compile())
    g.add_edge(START, "write")
    g.add_edge("write", "inside")
    return g.compile()


def tooling():
    """Runs the tools that the input calls: one that shows its answer in parts, one that fails, one that asks, one with a graph inside."""

    @tool
    def weather(city: str, runtime: ToolRuntime) -> str:
        """The weather in a city."""
        for part in ("It rains", " in " + city):
            runtime.emit_output_delta(part)
        return "It rains in " + city

    @tool
    def broken(text: str) -> str:
        """Fails."""
        raise ValueError("broken: " + text)

    @tool
    def person(question: str) -> str:
        """Asks."""
        return "They say " + str(interrupt(question))

    @tool
    def inside(n: int) -> str:
        """Counts in a graph."""
        return "It has " + str(counting.invoke({"n": n})["n"])

    @tool
    def update(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Updates the state."""
        return Command(update={"messages": [ToolMessage("It is " + text, tool_call_id=tool_call_id)]})

    @tool
    def helper(n: int) -> str:
        """Counts in an agent, as create_agent names it."""
        return "It has " + str(named.invoke({"n": n})["n"])

    def route(state: Chat):
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [c]) for c in calls] if calls[0]["name"] == "helper" else "tools"

    counting = make_counter()
    named = make_counter().with_config(metadata={"lc_agent_name": "counting"})
    g = StateGraph(Chat)
    g.add_node("tools", ToolNode([weather, broken, person, inside, update, helper]))
    g.add_conditional_edges(START, route, ["tools"])
    return g.compile(transformers=[ToolCallTransformer])


spare = make_counter = counter  # a scenario deletes its assistant

agent, ask, configured, counter, custom, error, fanout, jump, nested, notes, slow, spare, telling, tooling, written = (
    make() for make in (agent, ask, configured, counter, custom, error, fanout, jump, nested, notes, slow, spare, telling, tooling, written)
)
