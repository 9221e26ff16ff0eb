"""The graphs of the browser's tests: an agent that asks before it sends a mail, a party, and a desk
whose calls are approved, as one question or as one about each."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
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


class Party(TypedDict, total=False):
    task: str
    messages: Annotated[list[AnyMessage], add_messages]
    guests: Annotated[list[str], operator.add]
    dish: str


async def talk(state: Party):
    writer = GenericFakeChatModel(messages=iter([AIMessage("one two three four five")]))
    return {"messages": [await writer.ainvoke("talk")]}


async def wait(state: Party):
    await asyncio.sleep(3600)


COMES = {
    "type": "object",
    "properties": {"comes": {"type": "boolean", "title": "Comes"}, "with": {"type": "integer", "title": "How many"}},
}


def invite(state: Party):
    return {"dish": "not known"}


def ann(state: Party):
    answer = interrupt({"question": "Does Ann come?"}, response_schema=COMES)
    return {"guests": [f"ann {str(answer['comes']).lower()} {answer['with']}"]}


def bob(state: Party):
    return {"guests": [f"bob {interrupt({'question': 'Does Bob come?'})}"]}


def soup(state: Party):
    return {"dish": f"soup for {len(state['guests'])}"}


kitchen = StateGraph(Party).add_node("soup", soup).add_edge(START, "soup").compile()

builder = StateGraph(Party)
for node in (talk, wait, invite, ann, bob):
    builder.add_node(node.__name__, node)
builder.add_node("kitchen", kitchen)
builder.add_conditional_edges(START, lambda s: s["task"], ["talk", "wait", "invite"])
builder.add_edge("invite", "ann")
builder.add_edge("invite", "bob")
builder.add_edge("ann", "kitchen")
builder.add_edge("bob", "kitchen")
party = builder.compile()


def refund(order: int, amount: float, reason: str, notify: bool = True) -> str:
    """Gives money back."""
    return f"order {order}, because {reason}, notify {str(notify).lower()}"


def write(to: str, text: str) -> str:
    """Writes to a customer."""
    return f"wrote to {to}"


class Clerk(BaseChatModel):
    """Refunds once, writes as well if it is asked for both, and repeats what its tools said."""

    _llm_type = "clerk"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            said = AIMessage("; ".join(m.content for m in messages if isinstance(m, ToolMessage)))
        else:
            args = {"order": 9007199254740993, "amount": 12.5, "reason": "it came late"}
            calls = [{"id": "c1", "name": "refund", "args": args}]
            if "both" in last.content:
                calls.append({"id": "c2", "name": "write", "args": {"to": "ann", "text": "Sorry,\nit was late."}})
            said = AIMessage("I will do that.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


def approved(mode):
    gates = {"refund": True, "write": {"allowed_decisions": ["approve", "reject"], "description": "Look at the tone."}}
    return create_agent(Clerk(), [refund, write], middleware=[HumanInTheLoopMiddleware(gates, interrupt_mode=mode)])


desk = approved("batched")
desk_each = approved("per_call")
