"""An agent that calls tools, one or several at a time, until it has an answer."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from ..saver import RecordingSaver
from . import program


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: {11 + len(city)} degrees, light rain"


@tool
def add(a: float, b: float) -> float:
    """The sum of two numbers."""
    return a + b


@tool
def fail(reason: str) -> str:
    """Always fails."""
    raise ValueError(reason)


def _call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": f"call-{number}", "type": "tool_call"}


def _script() -> list[AIMessage]:
    return [
        AIMessage("", tool_calls=[_call("weather", 1, city="Lund")]),
        AIMessage(
            "Two more.",
            tool_calls=[_call("weather", 2, city="Kyōto"), _call("add", 3, a=1.5, b=2)],
        ),
        AIMessage("", tool_calls=[_call("fail", 4, reason="no luck")]),
        AIMessage("Lund 15, Kyōto 16, sum 3.5; one tool failed."),
        AIMessage("", tool_calls=[_call("add", n, a=n, b=n * n) for n in range(5, 13)]),
        AIMessage("Eight sums."),
        AIMessage("You are welcome."),
    ]


@program("tools", "A tool-calling agent loop: single, parallel and failing tool calls.")
def tools(saver: RecordingSaver) -> None:
    script = iter(_script())

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [next(script)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([weather, add, fail], handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    app = graph.compile(checkpointer=saver)

    config: Any = {"configurable": {"thread_id": "agent"}}
    for question in ("Weather?", "Sums?", "Thanks."):
        app.invoke({"messages": [HumanMessage(question)]}, config)
