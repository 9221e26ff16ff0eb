"""Values of every kind the serializer knows, as state and as writes."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from typing import Any, NamedTuple, TypedDict

import pydantic
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Interrupt, Send

from ..saver import RecordingSaver
from . import program


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Record:
    name: str
    parts: list[Any]


class Model(pydantic.BaseModel):
    title: str
    inner: dict[str, int] = {}


def _plain() -> list[Any]:
    return [
        None, True, False, 0, 1, -1, 127, 128, 2**31, 2**63 - 1, -(2**63), 2**64 - 1,
        0.0, 1.5, -1e300, 5e-324, "", "text", "λ🜁", "x" * 300, b"", b"\x00\xff",
        bytearray(b"mutable"), [], [1, [2, [3]]], {}, {"b": 1, "a": 2},
        {1: "int key", True: "same key", (1, 2): "tuple key", None: "nil key"},
        (1, 2), "nul \x00 inside",
    ]  # fmt: skip


def _extended() -> list[Any]:
    utc = datetime.timezone.utc
    return [
        uuid.UUID(int=7),
        decimal.Decimal("1.10"),
        {1, 2, 3},
        frozenset({"a"}),
        collections.deque([1, 2]),
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_network("2001:db8::/32"),
        zoneinfo.ZoneInfo("Europe/Stockholm"),
        datetime.datetime(2026, 1, 19, 10, 17, 7, 498064, tzinfo=utc),
        datetime.date(2026, 1, 19),
        datetime.time(10, 17, tzinfo=utc),
        datetime.timedelta(days=-1, microseconds=5),
        datetime.timezone(datetime.timedelta(hours=5, minutes=30), "IST"),
        pathlib.Path("a/b"),
        re.compile(r"a+", re.IGNORECASE),
        Colour.RED,
        Point(1, 2),
        Record("r", [Point(3, 4), {5}]),
        Model(title="t", inner={"k": 1}),
        Send("node", {"arg": Record("s", [])}),
        Interrupt(value="v", id="0" * 32),
        AIMessage("hi", id="m1"),
        ToolMessage("out", tool_call_id="c1", id="m2"),
        RemoveMessage(id="m1"),
        Document("page", metadata={"n": 1}),
        ValueError("stored as its repr"),
        [uuid.UUID(int=8), {"nested": decimal.Decimal(3)}],
    ]


class _State(TypedDict, total=False):
    number: int
    value: Any


@program("kinds", "A state that takes every kind of value in turn: null, bytes, msgpack and its ext types.")
def kinds(saver: RecordingSaver) -> None:
    values = _plain() + _extended()
    graph = StateGraph(_State)
    graph.add_node("take", lambda state: {"value": values[state["number"]]})
    graph.add_edge(START, "take")
    app = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "kinds"}}
    for number in range(len(values)):
        app.invoke({"number": number}, config)
