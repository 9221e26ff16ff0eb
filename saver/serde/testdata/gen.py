"""Writes langgraph.json: what LangGraph's serializer makes of many values.

Run with a Python that has langgraph-checkpoint, langgraph, numpy and
pycryptodome:

    PYTHONHASHSEED=0 python gen.py > langgraph.json

Every case holds the typed bytes, and descriptions made from the Python values,
not from the bytes: of the value itself, of what LangGraph's JSON view reads
back, and of what a strict LangGraph reads back. The Go test makes the same
descriptions of what it decodes.
"""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import hashlib
import ipaddress
import json
import logging
import math
import pathlib
import re
import struct
import sys
import uuid
import warnings
import zoneinfo

import numpy as np
import ormsgpack
import pydantic
import pydantic.v1
from importlib.metadata import version
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import (
    Command,
    Interrupt,
    Overwrite,
    PregelTask,
    Send,
    StateSnapshot,
    TimeoutPolicy,
)

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def app(cls):
    """Gives a class a module name that does not depend on how this is run."""
    cls.__module__ = "app.models"
    return cls


@app
class Color(enum.Enum):
    RED = "red"
    BLUE = 2


@app
class Level(enum.IntEnum):
    LOW = 1


@app
class Mood(str, enum.Enum):
    GOOD = "good"


@app
@dataclasses.dataclass
class Point:
    y: int
    x: float
    tags: list = dataclasses.field(default_factory=list)


@app
class Pair(collections.namedtuple("Pair", "second first")):
    pass


@app
class Invoice(pydantic.BaseModel):
    number: str
    amount: decimal.Decimal
    due: dt.date
    lines: list[dict] = []
    note: str | None = None


@app
class OldInvoice(pydantic.v1.BaseModel):
    number: str
    amount: int


UTC = dt.timezone.utc
HALF = dt.timezone(dt.timedelta(hours=5, minutes=30))
WEST = dt.timezone(dt.timedelta(hours=-8))
ODD = dt.timezone(dt.timedelta(hours=1, seconds=7))
MICRO = dt.timezone(dt.timedelta(hours=1, microseconds=7))
NAMED = dt.timezone(dt.timedelta(hours=2), "CEST")

CASES = []


def case(name, value, **extra):
    CASES.append((name, value, extra))


# --- plain msgpack ---
case("null", None)
case("true", True)
case("false", False)
for n in (0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1):
    case(f"int {n}", n)
for n in (-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63)):
    case(f"int {n}", n)
for name, f in {
    "zero": 0.0, "minus zero": -0.0, "one": 1.0, "tenth": 0.1, "nan": math.nan, "inf": math.inf,
    "minus inf": -math.inf, "max": sys.float_info.max, "min": 5e-324, "2**53+1": float(2**53 + 2),
}.items():
    case("float " + name, f)
case("str empty", "")
case("str 31", "a" * 31)
case("str 32", "a" * 32)
case("str 255", "b" * 255)
case("str 256", "b" * 256)
case("str 70000", "c" * 70000)
case("str unicode", "zażółć gęślą jaźń 🎉 日本語 \u0000 \\u0041 \u2028")
case("str nul and escapes", "foo\u0000 and \\u0000 and \\ud83e")
case("str lone surrogate", "a\ud800b\udfffc", described="a?b?c")
case("bytes", b"\x00\xff raw")
case("bytes empty", b"")
case("bytearray", bytearray(b"*"))
case("bytearray empty", bytearray())
case("bytearray nested", [bytearray(b"*"), b"", b"x" * 300, b"y" * 70000])
case("list empty", [])
case("list 15", list(range(15)))
case("list 16", list(range(16)))
case("list 70000", [0] * 70000)
case("tuple", (1, "two", None))
case("map empty", {})
case("map 15", {chr(97 + i): i for i in range(15)})
case("map 16", {chr(97 + i): i for i in range(16)})
case("map 70000", {f"{i:05}": None for i in range(70000)})
case("map int keys", {-5: "a", 0: "b", 7: "c", 2**63: "d"})
case("map mixed keys", {None: 1, False: 2, 3: 4, 3.5: 5, "six": 6})
case("map tuple keys", {(1, (2, b"x")): "nested", ("a", 1): "flat"})
case("map bytes keys", {b"a": 1, b"b": 2})
case("map unsorted", {"z": 1, "a": {"y": 2, "b": 3}}, inexact=True)
case("map uuid and date keys", {uuid.UUID(int=1): 1, dt.date(2024, 4, 19): 2},
     described={"00000000-0000-0000-0000-000000000001": 1, "2024-04-19": 2})
case("nested 100", functools.reduce(lambda v, _: [v], range(100), "deep"))
case("state", {"channel_values": {"messages": [{"content": "hi", "role": "user"}], "n": 3}, "v": 4})
case("str subclass", type("S", (str,), {})("sub"), described="sub")

# --- datetime ---
case("datetime naive", dt.datetime(2024, 4, 19, 23, 4, 57))
case("datetime naive micro", dt.datetime(2024, 4, 19, 23, 4, 57, 51022))
case("datetime naive midnight", dt.datetime(1, 1, 1))
case("datetime naive last", dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
case("datetime utc", dt.datetime(2024, 4, 19, 23, 4, 57, 51022, tzinfo=UTC))
case("datetime utc whole", dt.datetime(2024, 2, 29, tzinfo=UTC))
case("datetime +05:30", dt.datetime(2024, 4, 19, 23, 4, 57, 51022, tzinfo=HALF))
case("datetime -08:00", dt.datetime(1969, 12, 31, 16, tzinfo=WEST))
case("datetime odd seconds", dt.datetime(1900, 1, 1, tzinfo=ODD))
case("datetime odd micros", dt.datetime(1900, 1, 1, tzinfo=MICRO))
case("datetime zone", dt.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")))
case("datetime fold", dt.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1))
case("date", dt.date(2024, 4, 19))
case("time naive", dt.time(23, 4, 57, 51022))
case("time utc", dt.time(1, 2, 3, tzinfo=UTC))
case("time offset", dt.time(23, 4, 57, 51022, tzinfo=dt.timezone(dt.timedelta(hours=23, minutes=59))))
case("time zone fold", dt.time(2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1))
case("timedelta", dt.timedelta(days=3, seconds=5, microseconds=7))
case("timedelta negative", dt.timedelta(microseconds=-1))
case("timedelta zero", dt.timedelta())
case("timedelta max", dt.timedelta.max)
case("timezone utc", UTC)
case("timezone named", NAMED)
case("timezone west", WEST)
case("zoneinfo", zoneinfo.ZoneInfo("America/New_York"))

# --- other safe types ---
case("uuid", uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"))
case("decimal", decimal.Decimal("1.10101"))
case("decimal exponent", decimal.Decimal("1E+30"))
case("decimal nan", decimal.Decimal("NaN"))
case("set", {1})
case("set empty", set())
case("frozenset", frozenset([7]))
case("deque", collections.deque([1, "b", None], maxlen=5))
case("ipv4", ipaddress.ip_address("192.168.0.1"))
case("ipv4 interface", ipaddress.ip_interface("192.168.0.1/24"))
case("ipv4 network", ipaddress.ip_network("192.168.0.0/24"))
case("ipv6", ipaddress.ip_address("2001:db8::1"))
case("ipv6 scope", ipaddress.ip_address("fe80::1%eth0"))
case("ipv6 mapped", ipaddress.ip_address("::ffff:1.2.3.4"))
case("ipv6 interface", ipaddress.ip_interface("2001:db8::1/64"))
case("ipv6 network", ipaddress.ip_network("2001:db8::/32"))
case("path", pathlib.Path("foo/bar"))
case("path absolute", pathlib.Path("/etc/hosts"))
case("path empty", pathlib.Path(""))
case("regex", re.compile(r"foo+", re.IGNORECASE | re.DOTALL))
case("regex bytes", re.compile(rb"\x00+"))
case("enum str", Color.RED)
case("enum int", Color.BLUE)
case("int enum", Level.LOW)
case("str enum", Mood.GOOD)
case("secret", pydantic.SecretStr("hunter2"))
case("exception", ValueError("Input is too large"), described=repr(ValueError("Input is too large")))
case("dataclass", Point(y=1, x=2.0, tags=["b", {"z": 1, "a": 2}]))
case("namedtuple", Pair(second=1, first=2))
case("pydantic", Invoice(number="7", amount=decimal.Decimal("9.90"), due=dt.date(2025, 1, 2), lines=[{"qty": 1, "art": "x"}]))
case("pydantic v1", OldInvoice(number="7", amount=3))
case("ndarray", np.array([[1.5, -2.0], [0.0, 3.25]]))
case("ndarray fortran", np.asfortranarray(np.array([[1, 2, 3], [4, 5, 6]], dtype="<i4")))
case("ndarray scalar", np.array(7, dtype="<i8"))
case("ndarray empty", np.zeros((0, 3), dtype="|u1"))
case("ndarray bool", np.array([True, False]))

# --- langgraph ---
POLICY = TimeoutPolicy(run_timeout=1.5, idle_timeout=0.25, refresh_on="heartbeat")
case("send", Send("worker", {"subject": "cats"}))
case("send none", Send("worker", None))
case("send timeout", Send("worker", {"subject": "cats"}, timeout=30))
case("send policy", Send("worker", 1, timeout=POLICY))
case("timeout policy", TimeoutPolicy(run_timeout=2.0))
case("timeout policy full", POLICY)
case("timeout policy delta", TimeoutPolicy(run_timeout=dt.timedelta(seconds=3)))
case("interrupt", Interrupt(value={"question": "age?"}, id="26f309d618c42ff31d2b3404369232e4"))
case("interrupt default id", Interrupt(value="age?"))
case("interrupt schema", Interrupt(value="age?", id="x", response_schema={"type": "integer"}))
case("interrupt legacy ns", Interrupt(value=1, ns=["legacy_test"]))
case("interrupts", (Interrupt("a", id="1"), Interrupt("b", id="2")))
case("command", Command(update={"a": 1}, resume="yes", goto=["n", Send("m", [1])]))
case("command empty", Command())
case("command parent", Command(graph=Command.PARENT, goto="alice", update=[("k", 1)]))
case("command resume map", Command(resume={"26f309d618c42ff31d2b3404369232e4": True}))
case("overwrite", Overwrite(value=["b"]))
case("overwrite none", Overwrite(None))
case("delta snapshot", _DeltaSnapshot(value=[1, {"a": "b"}]))
case("delta snapshot none", _DeltaSnapshot(value=None))
case("delta of messages", _DeltaSnapshot(value=[HumanMessage("hi", id="1")]))
case("item", Item(value={"a": 1}, key="k", namespace=("users", "1"),
                  created_at=dt.datetime(2024, 4, 19, tzinfo=UTC), updated_at=dt.datetime(2024, 4, 20, tzinfo=UTC)))
case("pregel task", PregelTask(id="1", name="n", path=("__pregel_pull", "n"), error=None, interrupts=(Interrupt("a", id="1"),)))
case("state snapshot", StateSnapshot({"b": 1, "a": 2}, ("n",), {"configurable": {"thread_id": "1"}}, None, None, None, (), ()))

# --- langchain ---
case("human", HumanMessage("hello", id="h1", name="bob"))
case("human blocks", HumanMessage([{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": "data:"}}]))
case("ai", AIMessage("hi there", id="a1"))
case("ai tools", AIMessage("", id="a2", tool_calls=[{"name": "search", "args": {"q": "cats", "limit": 3}, "id": "c1", "type": "tool_call"}],
                           usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
                           response_metadata={"model_name": "m", "finish_reason": "stop"}))
case("ai chunk", AIMessageChunk("part", id="a3"))
case("tool", ToolMessage("42", tool_call_id="c1", id="t1", artifact={"rows": [1, 2]}))
case("system", SystemMessage("be brief", id="s1"))
case("chat", ChatMessage("hey", role="critic", id="ch1"))
case("function", FunctionMessage("r", name="f", id="f1"))
case("remove", RemoveMessage(id="a1"))
case("document", Document("text", metadata={"source": "s", "page": 1}))
case("messages", [HumanMessage("hello", id="h1"), AIMessage("hi there", id="a1"), ToolMessage("42", tool_call_id="c1", id="t1")])

# --- everything at once ---
case("nested ext", Send("n", Overwrite([Point(1, 2.0), {"at": dt.datetime(2024, 4, 19, tzinfo=UTC), "ids": [uuid.UUID(int=5)]}])))
case("ext in unsorted ext", Point(y=Interrupt({"z": 1, "a": 2}, id="i"), x=Color.RED, tags=[Send("n", {"q": 1, "b": 2}), {1}, {5: "x", 2: "y"}]))
case("big mixed", {
    "a_bool": True, "a_bytes": b"my bytes", "a_bytearray": bytearray([42]), "a_date": dt.date(2024, 4, 19), "a_dataclass": Point(1, 2.0),
    "a_decimal": decimal.Decimal("1.10101"), "a_deque": collections.deque([1, 2]), "a_enum": Color.RED, "a_frozenset": frozenset([1]),
    "a_float": 1.5, "a_int": 1, "a_ip4": ipaddress.ip_address("192.168.0.1"), "a_list": [1, [2]], "a_model": Invoice(number="1", amount=1, due=dt.date(2024, 1, 1)),
    "a_none": None, "a_path": pathlib.Path("foo/bar"), "a_regex": re.compile("foo", re.DOTALL), "a_secret": pydantic.SecretStr("s"), "a_set": {1},
    "a_str": "foo", "a_time": dt.time(23, 4, 57, 51022, tzinfo=dt.timezone(dt.timedelta(seconds=86340))),
    "a_timedelta": dt.timedelta(1), "a_uuid": uuid.UUID(int=1), "a_zone": zoneinfo.ZoneInfo("America/New_York"),
    "an_ai": AIMessage("x", id="1"), "a_datetime": dt.datetime(2024, 4, 19, 23, 4, 57, 51022, tzinfo=dt.timezone(dt.timedelta(seconds=86340))),
    "an_item": Item(value={}, key="k", namespace=("n",), created_at=dt.datetime(2024, 4, 19), updated_at=dt.datetime(2024, 4, 19)),
}, sort=True)


def pairs(items):
    return {"map": sorted(([describe(k), describe(v)] for k, v in items), key=json.dumps)}


def ext(code, obj, value, method=""):
    return {"ext": [code, type(obj).__module__, type(obj).__name__, describe(value), method]}


def describe(v, nested=True):
    """Says what v is, in JSON."""
    t = type(v)
    if v is None or t is bool:
        return v
    if t is int:
        return {"int": str(v)}
    if t is float:
        return {"float": struct.pack(">d", v).hex()}
    if t is str:
        return {"str": v if len(v) < 1000 else f"{len(v)} of {v[0]}"}
    if t in (bytes, memoryview):
        v = bytes(v)
        return {"bytes": v.hex() if len(v) < 1000 else f"{len(v)} of {v[0]:02x}"}
    if t is bytearray:
        return {"bytes" if nested else "bytearray": v.hex()}
    if t in (list, tuple):
        return {"list": [describe(x) for x in v] if len(v) < 1000 else len(v)}
    if t is dict:
        return pairs(v.items()) if len(v) < 1000 else {"map": len(v)}
    return describe_object(v, t)


def describe_object(v, t):
    if t is dt.datetime:
        return {"datetime": v.isoformat()}
    if t is dt.date:
        return {"date": v.isoformat()}
    if t is dt.time:
        return {"time": [v.hour, v.minute, v.second, v.microsecond, describe(v.tzinfo), v.fold]}
    if t is dt.timedelta:
        return {"timedelta": [v.days, v.seconds, v.microseconds]}
    if t is dt.timezone:
        return {"timezone": [describe(x) for x in v.__getinitargs__()]}
    if t is zoneinfo.ZoneInfo:
        return {"zone": v.key}
    if t is uuid.UUID:
        return {"uuid": str(v)}
    if t is decimal.Decimal:
        return {"decimal": str(v)}
    if t in (set, frozenset, collections.deque):
        return {t.__name__: [describe(x) for x in v]}
    if t.__module__ == "ipaddress":
        return {"ip": [t.__name__, str(v)]}
    if isinstance(v, pathlib.Path):
        return {"path": [t.__module__, t.__name__, list(v.parts)]}
    if t is re.Pattern:
        return {"regex": [describe(v.pattern), v.flags]}
    if t is np.ndarray:
        order = "F" if v.flags.f_contiguous and not v.flags.c_contiguous else "C"
        return {"ndarray": [v.dtype.str, list(v.shape), order, v.tobytes(order="A").hex()]}
    if t is Send:
        return {"send": [v.node, describe(v.arg), describe(v.timeout)]}
    if t is Interrupt:
        return {"interrupt": [describe(v.value), v.id, describe(v.response_schema)]}
    if t is Command:
        return {"command": [v.graph, describe(v.update), describe(v.resume), describe(v.goto)]}
    if t is Overwrite:
        return {"overwrite": describe(v.value)}
    if t is TimeoutPolicy:
        return {"timeout": [describe(v.run_timeout), describe(v.idle_timeout), v.refresh_on]}
    if t is _DeltaSnapshot:
        return {"delta": describe(v.value)}
    if isinstance(v, (pydantic.v1.BaseModel, Item)):  # whatever has dict() is taken for the former
        return ext(4, v, v.dict())
    if isinstance(v, pydantic.BaseModel):
        return ext(5, v, v.model_dump(), "model_validate_json")
    if isinstance(v, enum.Enum):
        return ext(0, v, v.value)
    if isinstance(v, pydantic.SecretStr):
        return ext(0, v, v.get_secret_value())
    if hasattr(v, "_asdict"):
        return ext(2, v, v._asdict())
    if dataclasses.is_dataclass(v):
        return ext(2, v, {f.name: getattr(v, f.name) for f in dataclasses.fields(v)})
    raise TypeError(f"no description for {t}")


def plain_hook(code, data):
    """LangGraph's JSON view, with the two codes it drops or converts put back."""
    if code == jsonplus.EXT_DELTA_SNAPSHOT:
        return _DeltaSnapshot(unpack(data, plain_hook))
    if code == jsonplus.EXT_NUMPY_ARRAY:
        dtype, shape, order, buf = unpack(data, plain_hook)
        return np.frombuffer(buf, dtype=np.dtype(dtype)).reshape(shape, order=order)
    if code == jsonplus.EXT_CONSTRUCTOR_POS_ARGS:
        tup = unpack(data, plain_hook)
        if (tup[0], tup[1]) == ("langgraph.types", "Send") and len(tup[2]) == 3:
            return tup[2]  # the view cannot rebuild the policy, and gives None
    return jsonplus._msgpack_ext_hook_to_json(code, data)


def unpack(data, hook):
    return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)


def write():
    serde = JsonPlusSerializer()
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    out = []
    for name, value, extra in CASES:
        if extra.get("sort"):
            value = dict(sorted(value.items()))
        kind, data = serde.dumps_typed(value)
        data = bytes(data)
        c = {"name": name, "kind": kind, "hex": data.hex()}
        if len(data) > 5000:  # long and dull: say how to make it again
            del c["hex"]
            c["size"], c["sha256"] = len(data), hashlib.sha256(data).hexdigest()
        c["value"] = describe(extra.get("described", value), nested=False)
        if kind == "msgpack" and "hex" in c:
            c["plain"] = describe(unpack(data, plain_hook))
            try:
                c["strict"] = describe(strict.loads_typed((kind, data)))
            except TypeError as e:
                raise TypeError(f"{name}: {e}")
        if extra.get("inexact"):
            c["inexact"] = True
        out.append(c)

    encrypted = []
    for size in (16, 24, 32):
        key, nonce = bytes(range(size)), bytes(range(100, 116))
        es = EncryptedSerializer.from_pycryptodome_aes(key=key, nonce=nonce)
        for name, value in {
            "null": None, "bytes empty": b"", "bytes 15": b"f" * 15, "bytes 16": b"g" * 16, "bytes 17": b"h" * 17,
            "bytes 4096": b"i" * 4096, "map": {"a": [1, 2, "three"]}, "human": HumanMessage("hello", id="h1"),
        }.items():
            kind, data = es.dumps_typed(value)
            encrypted.append({"name": f"{name}, {8 * size} bit", "key": key.hex(), "nonce": nonce.hex(), "kind": kind,
                              "hex": data.hex(), "inner": bytes(serde.dumps_typed(value)[1]).hex()})

    legacy = []
    for name, text in JSON.items():
        legacy.append({"name": name, "text": text, "value": describe(serde.loads_typed(("json", text.encode())))})
    versions = {m: version(m) for m in ("langgraph", "langgraph-checkpoint", "langchain-core", "ormsgpack", "pycryptodome", "numpy")}
    json.dump({"versions": versions, "cases": out, "encrypted": encrypted, "json": legacy}, sys.stdout, indent=1)
    print()


def lc2(module, name, **kw):
    return json.dumps({"lc": 2, "type": "constructor", "id": [*module.split("."), name], **kw})


JSON = {
    "null": "null", "int": " 12 ", "negative": "-9223372036854775808", "uint": "18446744073709551615", "float": "1.0", "exponent": "1e3", "huge": "1e999",
    "nan": "[NaN, Infinity, -Infinity]", "escapes": r'"\u0041\n\ud83c\udf89\/ \\u0000"', "object": '{"a": {"b": []}, "a2": {}}', "repeated key": '{"a": 1, "a": 2}',
    "uuid": lc2("uuid", "UUID", args=["f81d4fae7dec11d0a76500a0c91e6bf6"]),
    "decimal": lc2("decimal", "Decimal", args=["1.10"]),
    "set": lc2("builtins", "set", args=[[1]]),
    "set empty": lc2("builtins", "set"),
    "frozenset": lc2("builtins", "frozenset", args=[[1]]),
    "deque": lc2("collections", "deque", args=[[1, "b"]]),
    "date": lc2("datetime", "date", args=[2024, 4, 19]),
    "timedelta": lc2("datetime", "timedelta", args=[1, 2, 3]),
    "timezone": lc2("datetime", "timezone", args=[json.loads(lc2("datetime", "timedelta", args=[0, 3600, 0]))]),
    "time": lc2("datetime", "time", kwargs={"hour": 1, "minute": 2, "second": 3, "microsecond": 4, "tzinfo": None, "fold": 0}),
    "ipv4": lc2("ipaddress", "IPv4Address", args=["192.168.0.1"]),
    "path": lc2("pathlib", "PosixPath", args=["/", "etc"]),
    "zone": lc2("zoneinfo", "ZoneInfo", args=["Europe/Berlin"]),
    "regex": lc2("re", "compile", args=["a+", 34]),
    "send": lc2("langgraph.types", "Send", kwargs={"node": "n", "arg": {"b": 1, "a": 2}}),
    "interrupt": lc2("langgraph.types", "Interrupt", kwargs={"value": "v", "resumable": True, "ns": ["legacy_test"], "when": "during"}),
    "interrupt complex ns": lc2("langgraph.types", "Interrupt", kwargs={"value": "v", "ns": ["legacy:test", "with:complex", "name:space"]}),
    "command": lc2("langgraph.types", "Command", kwargs={"graph": None, "update": {"a": 1}, "resume": None, "goto": []}),
    "human": lc2("langchain_core.messages.human", "HumanMessage", kwargs=HumanMessage("hi", id="1").model_dump(), method=[None, "construct"]),
    "not safe": lc2("app.models", "Point", kwargs={"x": 1}),
    "os.system": lc2("os", "system", args=["true"]),
    "exception": lc2("builtins", "ValueError", args=["x"]),
    "short id": '{"lc": 2, "type": "constructor", "id": ["set"]}',
}

if __name__ == "__main__":
    sys.modules["app"] = sys.modules["app.models"] = sys.modules["__main__"]
    write()
