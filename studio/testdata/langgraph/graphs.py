"""The graph of the browser's tests: an agent that asks before it sends a mail."""

import operator
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt


class Mail(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    sent: Annotated[list[str], operator.add]
    note: str


def model(state: Mail):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        usage = {"input_tokens": 10, "output_tokens": 12, "total_tokens": 22}
        return {"messages": [AIMessage("**Done.** The mail is on its way.", usage_metadata=usage)]}
    if "fail" in last.content:
        raise ValueError("the model is not there")
    call = {"id": "call-1", "name": "send_mail", "args": {"to": "ann", "text": last.content}}
    return {"messages": [AIMessage("I will send it.", tool_calls=[call])], "note": "asked"}


def send(state: Mail):
    call = state["messages"][-1].tool_calls[0]
    answer = interrupt({"question": "Send this mail?", "to": call["args"]["to"]})
    return {
        "messages": [ToolMessage(f"answer: {answer}", tool_call_id=call["id"])],
        "sent": [call["args"]["to"]],
    }


builder = StateGraph(Mail)
builder.add_node("model", model)
builder.add_node("send", send)
builder.add_edge(START, "model")
builder.add_conditional_edges("model", lambda s: "send" if s["messages"][-1].tool_calls else END, ["send", END])
builder.add_edge("send", "model")
mail = builder.compile()
