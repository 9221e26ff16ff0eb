"""Records what LangChain's messages are and do, for the tests of package message.

    python -m venv venv && venv/bin/pip install -r ../../test/parity/requirements.txt
    PYTHONHASHSEED=0 venv/bin/python record.py [directory]

It writes python.json, what LangGraph stores for messages, and random.json.gz, what
LangChain answers to random calls, into the directory, or beside itself.
"""

import base64
import gzip
import json
import math
import os
import random
import re
import sys
import uuid

from langchain_core.messages import (
    AIMessage, AIMessageChunk, ChatMessage, ChatMessageChunk, FunctionMessage, FunctionMessageChunk, HumanMessage,
    HumanMessageChunk, RemoveMessage, SystemMessage, SystemMessageChunk, ToolMessage, ToolMessageChunk, add_notification_metadata,
    convert_to_messages, filter_messages, merge_message_runs, message_chunk_to_message, trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages

here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
serde = JsonPlusSerializer()


def stored(v):
    kind, data = serde.dumps_typed(v)
    assert kind == "msgpack"
    return base64.b64encode(data).decode()


def call(name="f", args=None, id="c1"):
    return {"name": name, "args": args if args is not None else {"a": 1}, "id": id}


USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
DETAILS = {**USAGE, "input_token_details": {"cache_read": 1, "audio": 0}, "output_token_details": {"reasoning": 5}}

# Each is stored as it is. For those marked "plain", a message with the same fields that was
# never stored has the same bytes: maps in them are sorted, and nothing is empty that could be
# missing.
PLAIN = [
    HumanMessage("hi"),
    HumanMessage("", id="1"),
    HumanMessage("héllo \u4e16\U0001f600", id="1", name="bob"),
    HumanMessage([{"text": "a", "type": "text"}, "b"], id="2"),
    HumanMessage([]),
    HumanMessage("x", additional_kwargs={"a": 1, "b": [1, {"c": None}]}, response_metadata={"z": 1.5}),
    HumanMessage("hi", example=True, foo={"x": [1, 2]}),
    SystemMessage("be nice", id="s"),
    SystemMessage([{"text": "a", "type": "text"}]),
    AIMessage("hello", id="a1"),
    AIMessage("", tool_calls=[call()], id="a2"),
    AIMessage("x", tool_calls=[call(), call("g", {}, None), call("h", {"deep": {"er": [1, 2, {"x": None}]}}, "c3")]),
    AIMessage("x", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c1", "error": "bad"}, {"name": None, "args": None, "id": None, "error": None}]),
    AIMessage("x", usage_metadata=USAGE),
    AIMessage("x", usage_metadata=DETAILS, response_metadata={"finish_reason": "stop", "model_name": "m"}),
    AIMessage([{"id": "c1", "input": {"q": 1}, "name": "f", "type": "tool_use"}, {"text": "a", "type": "text"}], tool_calls=[call()], name="bot"),
    ToolMessage("42", tool_call_id="c1"),
    ToolMessage("42", tool_call_id="c1", artifact={"x": b"bytes", "y": [1, 2]}, status="error", name="f", id="t"),
    ToolMessage([{"text": "a", "type": "text"}], tool_call_id=""),
    FunctionMessage("42", name="f"),
    ChatMessage("42", role="boss", id="x"),
    RemoveMessage("x"),
    RemoveMessage("__remove_all__"),
]
OTHER = [
    HumanMessage("x", name="", id=""),
    HumanMessage("x", additional_kwargs={"z": 1, "a": {"y": 1, "b": 2}}, response_metadata={"q": 1, "b": 2}, zz=1, aa={"z": 1, "b": 2}),
    HumanMessage([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:…", "detail": "low"}}]),
    HumanMessage("x", additional_kwargs={1: 2, "a": {(1, 2): 3}}),
    AIMessage("", tool_calls=[call(args={"z": 1, "a": 2})], additional_kwargs={"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}, "type": "function"}]}),
    AIMessage("", tool_calls=[call(id="")], invalid_tool_calls=[{"name": "", "args": "", "id": "", "error": ""}]),
    AIMessage("", additional_kwargs={"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"b":1,"a":2}'}, "type": "function"}, {"id": "c2", "function": {"name": "g", "arguments": "{"}, "type": "function"}]}),
    AIMessage("x", usage_metadata={**DETAILS, "output_token_details": {"zz": 1, "reasoning": 2, "aa": 3}}),
    AIMessage("x", usage_metadata={**USAGE, "input_token_details": {}, "output_token_details": {}}),
    AIMessage.model_construct(content="x", tool_calls="odd", usage_metadata={"input_tokens": 1.5}, additional_kwargs=None, id=7, type="ai"),
    AIMessage.model_construct(content=None, type="ai"),
    AIMessage.model_construct(content="x", type="ai", tool_calls=[{"name": "f", "args": {}, "id": "1", "extra": 1}]),
    ToolMessage.model_construct(content="x", type="tool", tool_call_id=None, status="weird"),
    AIMessage("x", tool_calls=[call("f", {"t": uuid.UUID(int=7), "s": {1}}, "c")]),
]
CHUNKS = [
    HumanMessageChunk("hi", id="1"),
    SystemMessageChunk("hi"),
    AIMessageChunk("hi", id="1", chunk_position="last"),
    AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": '{"a": 1', "id": "c", "index": 0}]),
    AIMessageChunk("", tool_call_chunks=[{"name": None, "args": "1", "id": None, "index": 3}, {"name": "", "args": "", "id": "", "index": None}]),
    AIMessageChunk("", tool_calls=[call()], usage_metadata=USAGE),
    ToolMessageChunk("hi", tool_call_id="c", artifact=[1]),
    FunctionMessageChunk("hi", name="f"),
    ChatMessageChunk("hi", role="r"),
]


def clean(v):
    """v, with floats that JSON does not have as maps."""
    if isinstance(v, float) and not math.isfinite(v):
        return {"float": str(v)}
    if isinstance(v, dict):
        return {k: clean(x) for k, x in v.items()}
    return [clean(x) for x in v] if isinstance(v, list) else v


def compact(m):
    """The fields that are not empty."""
    out = {}
    for k, v in clean(m.model_dump()).items():
        if v is None or v == {} and k != "artifact" or k != "content" and (v == [] or v == ""):
            continue
        if k == "status" and v == "success" or k == "artifact" and v is None:
            continue
        out[k] = v
    return out


def compacts(ms):
    return [compact(m) for m in ms]


def attempt(f, show):
    try:
        return {"out": show(f())}
    except Exception as e:  # which one, the tests do not compare
        return {"error": type(e).__name__}


rnd = random.Random(20240601)
WORDS = ["alpha", "beta", "gamma\n", "delta", "line one\nline two\n", "x", "héllo", ""]


def text(most=4):
    return " ".join(rnd.choice(WORDS) for _ in range(rnd.randrange(most)))


def block(i=None):
    kind = rnd.randrange(6)
    if kind == 0:
        return text()
    if kind <= 3:
        b = {"type": "text", "text": text()}
    elif kind == 4:
        b = {"type": "tool_use", "id": rnd.choice(["c0", "c1", "c2"]), "name": "f", "input": {}}
    else:
        b = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    if i is not None and rnd.random() < 0.7:
        b["index"] = i
    return b


def content():
    return text() if rnd.random() < 0.65 else [block() for _ in range(rnd.randrange(4))]


def some(*choices):
    return rnd.choice(choices)


def common():
    out = {}
    if rnd.random() < 0.5:
        out["id"] = some("i0", "i1", "i2", "i3", "lc_1", "lc_run-1")
    if rnd.random() < 0.3:
        out["name"] = some("bob", "eve")
    if rnd.random() < 0.1:
        out["additional_kwargs"] = {"k": some("a", "b"), "n": some(1, 2)}
    if rnd.random() < 0.2:
        out["response_metadata"] = {"m": some("a", "b")}
    return out


def calls(n=3):
    return [call(some("f", "g"), {"a": some(1, "x", 1.5, None, "é😀\x01\x7f\"")}, some("c0", "c1", "c2", None)) for _ in range(rnd.randrange(n))]


def message(kinds="haasttfcr"):
    k = rnd.choice(kinds)
    if k == "h":
        return HumanMessage(content(), **common())
    if k == "s":
        return SystemMessage(content(), **common())
    if k == "a":
        kw = common()
        if rnd.random() < 0.4:
            kw["tool_calls"] = calls()
        if rnd.random() < 0.1:
            kw["invalid_tool_calls"] = [{"name": "f", "args": "{", "id": "c1", "error": None}]
        if rnd.random() < 0.2:
            kw["usage_metadata"] = some(USAGE, DETAILS)
        return AIMessage(content(), **kw)
    if k == "t":
        return ToolMessage(content(), tool_call_id=some("c0", "c1", "c2"), status=some("success", "success", "error"), **common())
    if k == "f":
        return FunctionMessage(content(), **{**common(), "name": some("f", "g")})
    if k == "c":
        return ChatMessage(content(), role=some("boss", "peer"), **common())
    if k == "R":
        return RemoveMessage(REMOVE_ALL_MESSAGES)
    return RemoveMessage(some("i0", "i1"))


def conversation(most=8, kinds="haasttfc"):
    out = [message(kinds) for _ in range(rnd.randrange(most))]
    if rnd.random() < 0.3:
        out.insert(0, SystemMessage(text(), **common()))
    if rnd.random() < 0.4:  # runs
        for i in range(1, len(out)):
            if rnd.random() < 0.5:
                out[i] = message({HumanMessage: "h", AIMessage: "a", SystemMessage: "s", FunctionMessage: "f", ChatMessage: "c", ToolMessage: "t", RemoveMessage: "r"}[type(out[i - 1])])
    return out


def subset(*all):
    return [x for x in all if rnd.random() < 0.4]


def filters():
    opts = {}
    for name, all in {
        "include_names": ("bob", "eve"), "exclude_names": ("bob", "eve"), "include_ids": ("i0", "i1", "i2"), "exclude_ids": ("i0", "i1", "i2"),
        "include_types": ("human", "ai", "system", "tool", "function", "chat"), "exclude_types": ("human", "ai", "system", "tool", "function", "chat"),
    }.items():
        if rnd.random() < 0.25:
            opts[name] = subset(*all)
    r = rnd.random()
    if r < 0.15:
        opts["exclude_tool_calls"] = True
    elif r < 0.45:
        opts["exclude_tool_calls"] = subset("c0", "c1", "c2")
    ms = conversation(kinds="haasttfcr")
    return {"in": compacts(ms), "opts": opts, **attempt(lambda: filter_messages(ms, **opts), compacts)}


def size(ms):
    """A count of tokens that the tests have too."""
    n = 0
    for m in ms:
        n += 3
        for b in [m.content] if isinstance(m.content, str) else m.content:
            n += len(b) if isinstance(b, str) else 2 + len(b.get("text", ""))
    return n


def words(s):
    return re.findall(r"\S+\s*|\s+", s)


def trims():
    ms = conversation(10)
    opts = {"strategy": some("first", "last", "last")}
    counter = some("len", "size", "size")
    opts["max_tokens"] = rnd.randrange(len(ms) + 2) if counter == "len" else rnd.randrange(size(ms) + 10)
    types = ("human", "ai", "tool", "system", "function", "chat")
    if rnd.random() < 0.5:
        opts["allow_partial"] = True
    if rnd.random() < 0.3:
        opts["end_on"] = subset(*types)
    if rnd.random() < (0.5 if opts["strategy"] == "last" else 0.05):
        opts["start_on"] = subset(*types)
    if rnd.random() < (0.5 if opts["strategy"] == "last" else 0.05):
        opts["include_system"] = True
    split = some("lines", "words")
    kw = {} if split == "lines" else {"text_splitter": words}
    return {"in": compacts(ms), "opts": opts, "counter": counter, "splitter": split,
            **attempt(lambda: trim_messages(ms, token_counter={"len": len, "size": size}[counter], **opts, **kw), compacts)}


def runs():
    ms = conversation(9, some("haasttfc", "haa", "haasr"))
    sep = some("\n", "\n", "", " | ")
    return {"in": compacts(ms), "sep": sep, **attempt(lambda: merge_message_runs(ms, chunk_separator=sep), compacts)}


IDS = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$")


def described():
    """A message in one of the forms that are read as one."""
    t = text()
    return some(
        t, [some("human", "user", "ai", "assistant", "system", "developer", "boss"), t],
        {"role": some("user", "assistant", "system", "developer", "nobody"), "content": content()},
        {"role": "assistant", "content": some(None, t), "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": some("{}", '{"a": 1}', "{")}}]},
        {"type": "human", "content": t, "id": some("i0", "i1"), "name": "bob", "custom": 1},
        {"type": "ai", "content": t, "tool_calls": calls(), "response_metadata": some({}, {"a": 1}), "additional_kwargs": {"x": 1}, "usage_metadata": USAGE},
        {"role": "tool", "content": some(t, 42, ["a"]), "tool_call_id": some("c1", 7), "status": some("success", "error", "odd"), "artifact": {"x": 1}},
        {"role": "tool", "content": t}, {"role": "function", "content": t, "name": "f"}, {"type": "remove", "content": "", "id": some("i0", "i9")},
        {"content": t}, {"role": "user"}, {"role": "user", "content": t, "type": "x", "tool_calls": [1]},
        {"role": "user", "content": t, "example": some(True, False)}, {"role": "assistant", "content": t, "tool_calls": [{"name": "f", "args": {}}]},
        {"role": "user", "content": {"a": 1}}, {"role": "user", "content": t, "name": 7}, {"role": "user", "content": t, "id": 7},
    )


def adds():
    def side(n, plain):
        out = []
        for _ in range(rnd.randrange(n)):
            r = rnd.random()
            if r < 0.1:
                out.append(("v", RemoveMessage(some("i0", "i1", "i2", "__remove_all__") if not plain else "i3")))
            elif r < 0.3 and not plain:
                out.append(("d", described()))
            else:
                out.append(("v", message("hast")))
        return out

    left, right = side(5, True), side(4, False)
    left = [x for x in left if not isinstance(x[1], RemoveMessage)]
    # compact before: add_messages writes ids into its arguments
    case = {k: [{"m": compact(v)} if tag == "v" else {"d": v} for tag, v in side] for k, side in (("left", left), ("right", right))}
    given = {v.id for tag, v in left + right if tag == "v"}

    def show(out):
        found = compacts(out)
        for m in found:
            if m.get("id") not in given and IDS.match(m.get("id", "")):
                m["id"] = "*"
        return found

    def values(side):
        return [tuple(v) if isinstance(v, list) else v for _, v in side]

    return {**case, **attempt(lambda: add_messages(values(left), values(right)), show)}


JSONS = [
    '{"a": 1}', '{"a": 1', '{"a": "he', '{"a": "he\\', '{"a": [1, 2', '{"a": {"b": [1, {"c": "d', '{"a": tru', '{"a": true', '{"a": 1.', '{"a": -', '{"a"', '{"a":',
    '{"a": 1,', '{"a": 1, "b', '{"a": 1, "b":', "{", "[1, 2]", "[1", "1", '"x"', "nul", "null", "}", "{]", '{"a": 1}}', '{"a": 1} x', '{"a": "x\ny"', '{"a": "x\ty"}',
    '{"a": NaN, "b": Infinity', '{"a": "\\u00e9\\ud83d\\ude00"', '{"a": "\\u12', '{"a": 1e5', '{"a": 01}', "", " ", '{"a": "b" "c": 1}', '{"a": 1}{"b": 2', "x{",
    '{"a": "\\x"', '{"a": [[[[[', '{"a": 1, "a": 2', "{'a': 1}", '{"a": "x\\\\"', '{"a": [1, 2}', '{"é": "世', '{"a": 1,   ', '{"a": 1e', '{"a": -Inf', "[{}",
]


def parts():
    """Random chunks whose texts are cut out of whole ones."""
    kind = some("ai", "ai", "ai", "ai", "other")
    if kind == "other":
        out = []
        cls = some("h", "s", "t", "f", "c", "mix")
        for _ in range(rnd.randrange(1, 4)):
            k = cls if cls != "mix" else some("h", "s", "t", "f", "c", "a")
            kw = common()
            if k == "f":
                kw["name"] = some("f", "f", "f", "g")
            c = {"h": HumanMessageChunk, "s": SystemMessageChunk, "t": ToolMessageChunk, "f": FunctionMessageChunk, "c": ChatMessageChunk, "a": AIMessageChunk}[k]
            if k == "t":
                kw |= {"tool_call_id": some("c0", "c0", "c0", "c1"), "artifact": some(None, "x", {"a": "b"}, [1], 1, 1, 2, 1.5, True), "status": some("success", "error")}
            if k == "c":
                kw["role"] = some("boss", "boss", "peer")
            out.append(c(content(), **kw))
        return out
    out = []
    texts = {i: some(*JSONS) for i in range(3)}
    cuts = {}
    for i, t in texts.items():
        a, b = sorted((rnd.randrange(len(t) + 1), rnd.randrange(len(t) + 1)))
        cuts[i] = [t[:a], t[a:b], t[b:]]
    style = some("text", "blocks", "mixed")
    for n in range(rnd.randrange(1, 5)):
        kw = {}
        if rnd.random() < 0.5:
            kw["id"] = some("lc_1", "lc_run-1", "p1", "p2", "")
        if rnd.random() < 0.2:
            kw["name"] = "bot"
        if rnd.random() < 0.4:
            kw["usage_metadata"] = some(USAGE, DETAILS, {**USAGE, "output_token_details": {"audio": 4}})
        if rnd.random() < 0.3:
            kw["response_metadata"] = some({"model_provider": "x"}, {"created": n}, {"finish": "stop"}, {"logprobs": {"content": [{"t": n}]}}, {"ok": some(True, False)}, {"x": some(1, 2, None, 1.5)}, {"output_version": "v1"})
        if rnd.random() < 0.2:
            kw["additional_kwargs"] = some({"function_call": {"arguments": some("{", None), "name": "f"}}, {"k": None}, {"k": "v"}, {"k": some(1, 1.5, "v", [1], {"a": 1})}, {"tool_calls": [{"index": 0, "id": "c9", "function": {"name": "f", "arguments": '{"q'}, "type": "function"}]})
        if rnd.random() < 0.6:
            kw["tool_call_chunks"] = []
            for i in rnd.sample(range(3), rnd.randrange(3)):
                part = cuts[i].pop(0) if cuts[i] else None
                kw["tool_call_chunks"].append({"name": some("f", None, None), "args": part, "id": some(f"c{i}", None, None, "", "c9"), "index": some(i, i, i, i, None)})
        elif rnd.random() < 0.2:
            kw["tool_calls"] = calls()
        if rnd.random() < 0.15:
            kw["chunk_position"] = "last"
        s = style if style != "mixed" else some("text", "blocks")
        body = text(3) if s == "text" else [
            some(block(j), block(j), {"type": "text", "text": "t", "index": f"lc_txt_{j}"}, {"type": "non_standard", "value": {"type": "q", "v": "w"}, "index": j},
                 {"type": "tool_call_chunk", "id": f"c{j}", "args": "{}", "index": j, "extras": {"s": 1}}, {"type": "server_tool_call_chunk", "id": "s", "args": some("{", '{"a": 1}', "", None), "index": j},
                 {"type": "reasoning", "index": some(j, True, 1.0), "n": some(1, 2, None, "1")})
            for j in range(rnd.randrange(3))]
        out.append(AIMessageChunk(body, **kw))
    return out


def sums():
    chunks = parts()
    case = {"in": compacts(chunks)}

    def total():
        out = chunks[0]
        for c in chunks[1:]:
            out = out + c
        return out

    case["sum"] = attempt(total, compact)
    if "out" in case["sum"]:
        case["whole"] = attempt(lambda: message_chunk_to_message(total()), compact)
    if all(isinstance(c, AIMessageChunk) for c in chunks):
        case["at_once"] = attempt(lambda: chunks[0] + chunks[1:], compact)
    return case


def whole_json():
    """What is made of the arguments of one tool call."""
    return [{"args": t, "sum": compact(AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": t, "id": "c", "index": 0}]))} for t in JSONS]


def deltas(kinds="hastr"):
    state = [message("hast") for _ in range(rnd.randrange(4))]
    writes = []
    for _ in range(rnd.randrange(4)):
        w = [message(kinds) for _ in range(rnd.randrange(3))]
        writes.append(w[0] if len(w) == 1 and rnd.random() < 0.5 else w)
    return {
        "state": compacts(state), "writes": [compacts(w if isinstance(w, list) else [w]) for w in writes],
        **attempt(lambda: _messages_delta_reducer(state, writes), compacts),
    }


def notices():
    m, source, data = message("ht"), some("a", "b"), some(None, {}, {"z": "1", "a": [None, "x"]})
    m.additional_kwargs = {**m.additional_kwargs, **some({}, {"lc_source": "old"}, {"lc_source": "old", "lc_data": {"k": 1}})}
    return {"in": compact(m), "source": source, "data": data, "out": compact(add_notification_metadata(m, source=source, data=data))}


RAW = [
    [], [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}], [{"id": None, "index": 2, "function": {"name": None, "arguments": ""}}],
    [{"id": "c", "function": {"name": "f", "arguments": "{"}}, {"id": "d", "function": {"name": "g", "arguments": "null"}}, {"id": "e"}],
    [{"function": {"name": "f", "arguments": "[1]"}}], [{"function": {"name": "f"}}], [{"function": {"arguments": "{}"}}], [{"function": {"name": "f", "arguments": {}}}],
    [{"id": 7, "function": {"name": "f", "arguments": "{}"}}], [{"id": "c", "function": {"name": "f", "arguments": "0"}}], ["text"], "text", None, [{"id": "c", "function": {"name": "f", "arguments": '"x\ny"'}}],
]


def raw():
    """What is made of tool calls in the form of OpenAI, where providers once put them."""
    return [{
        "raw": r,
        "chunk": attempt(lambda: AIMessageChunk("", additional_kwargs={"tool_calls": r}), compact),
        "message": attempt(lambda: convert_to_messages([{"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": r}}])[0], compact),
    } for r in RAW]


def counts():
    ms = conversation(kinds="haast")
    return {"in": compacts(ms), "out": count_tokens_approximately(ms)}


def write(name, data):
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "surrogatepass")
    path = os.path.join(here, name)
    if name.endswith(".gz"):
        with open(path, "wb") as f, gzip.GzipFile(filename="", fileobj=f, mode="wb", mtime=0) as g:
            g.write(body)
    else:
        with open(path, "wb") as f:
            f.write(body + b"\n")


write("python.json", {
    "plain": [{"class": type(m).__name__, "data": stored(m)} for m in PLAIN],
    "other": [{"class": type(m).__name__, "data": stored(m)} for m in OTHER],
    "chunks": [{"class": type(m).__name__, "data": stored(m)} for m in CHUNKS],
    "list": stored(PLAIN + OTHER[:7]),
    "state": stored({"messages": PLAIN, "n": 1}),
})
write("random.json.gz", {
    "filter": [filters() for _ in range(400)],
    "trim": [trims() for _ in range(600)],
    "runs": [runs() for _ in range(400)],
    "add": [adds() for _ in range(400)],
    "sum": [sums() for _ in range(600)],
    "json": whole_json(),
    "raw": raw(),
    "count": [counts() for _ in range(300)],
    "delta": [deltas() for _ in range(300)],
    "reset": [deltas("hasttrR") for _ in range(300)],
    "notice": [notices() for _ in range(60)],
})
