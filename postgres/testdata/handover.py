"""The Python side of the hand-over test: LangGraph's own saver on a database.

    handover.py write URL    writes threads, and prints what it reads of them
    handover.py read URL     prints what it reads of all threads
    handover.py filter URL   prints the ids that the filters on standard input select
    handover.py resume URL   puts a checkpoint upon the newest of thread "go"
    handover.py sleeping URL prints what LangGraph shows of thread "t", and copies it to thread "copy"
    handover.py move URL     puts a checkpoint of now upon the newest of thread "moved"
"""

import datetime
import decimal
import json
import sys
import uuid

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

serde = JsonPlusSerializer()


def typed(value):
    kind, data = serde.dumps_typed(value)
    return [kind, data.hex()]


def shown(tup):
    cp = tup.checkpoint
    conf = tup.config["configurable"]
    return {
        "thread": conf["thread_id"],
        "ns": conf["checkpoint_ns"],
        "id": conf["checkpoint_id"],
        "parent": tup.parent_config["configurable"]["checkpoint_id"] if tup.parent_config else "",
        "v": cp["v"],
        "ts": cp["ts"],
        "versions": cp["channel_versions"],
        "seen": cp["versions_seen"],
        "updated": cp.get("updated_channels"),
        "metadata": tup.metadata,
        "values": {k: typed(v) for k, v in cp["channel_values"].items()},
        "writes": [[task, channel, typed(value)] for task, channel, value in tup.pending_writes],
    }


def dump(saver):
    for tup in saver.list(None):
        print(json.dumps(shown(tup)))


def put(saver, thread, n, values, parent=None, ns="", fresh=None, metadata=None, before=None, config=None):
    cp = empty_checkpoint()
    cp["id"] = f"1f0f5200-24f1-{0x5000 + n:04x}-8000-bde4e02ab92b"
    cp["v"], cp["channel_values"] = 4, values
    versions = dict(before or {})
    new = {}
    for channel in fresh if fresh is not None else values:
        new[channel] = versions[channel] = saver.get_next_version(versions.get(channel), None)
    cp["channel_versions"] = versions
    cp["versions_seen"] = {"node": dict(versions), "__input__": {}}
    cp["updated_channels"] = sorted(new)
    conf = {"thread_id": thread, "checkpoint_ns": ns, **(config or {})}
    if parent:
        conf["checkpoint_id"] = parent
    md = {"source": "loop", "step": n, "parents": {}, **(metadata or {})}
    config = saver.put({"configurable": conf}, cp, md, new)
    return config, versions


VALUES = {
    "str": "text", "int": 7, "big": 2**62, "float": 1.0, "tenth": 0.1, "bool": True, "none": None, "empty": "",
    "unicode": "é 😀 \u2028", "backslash": "a\\b\\u0000", "list": [1, 1.0, "a\x00b", None, float("inf")], "nested": {"b": {"a": [1]}, "a": 1},
    "bytes": b"\x00\xff", "array": bytearray(b"*"), "set": {1}, "tuple": (1, 2), "uuid": uuid.UUID(int=5),
    "when": datetime.datetime(2024, 4, 19, 23, 4, 57, 51022, datetime.timezone.utc), "decimal": decimal.Decimal("1.10"),
    "nan": [float("nan")], "long": "x" * 5000,
}


def write(saver):
    first, v1 = put(saver, "py", 1, VALUES, metadata={"user": "ada", "score": 0.5, "whole": 1.0, "tags": ["a", {"deep": None}]}, config={"user_id": "u1"})
    at = first["configurable"]["checkpoint_id"]
    saver.put_writes(first, [("b", [2]), ("a", "one"), (ERROR, "no")], "task-b", "~__pregel_pull, b")
    saver.put_writes(first, [("a", 1), ("a", None)], "task-a", "~__pregel_push, 1")
    saver.put_writes(first, [(INTERRUPT, {"ask": 1})], "task-c")
    saver.put_writes(first, [(RESUME, ["yes"])], "task-c")
    # Two forks of one checkpoint, each with values of its own.
    for n, side in ((2, "left"), (3, "right")):
        put(saver, "py", n, {**VALUES, "list": [side], "str": side}, at, fresh=["list", "str"], before=v1, metadata={"user": side, "score": None})
    put(saver, "py", 4, {"inner": {"a": 1}}, ns="child:1", metadata={"parents": {"": at}, "run_id": "r1"})
    put(saver, "delta", 5, {"messages": _DeltaSnapshot([1, 2])}, metadata={"counters_since_delta_snapshot": {"messages": 0}})


def resume(saver):
    config = {"configurable": {"thread_id": "go", "checkpoint_ns": ""}}
    tup = saver.get_tuple(config)
    cp = tup.checkpoint
    # Python itself can not put scalars that its JSON column does not hold: it inlines all.
    values = {k: v for k, v in cp["channel_values"].items() if not isinstance(v, float) and v != "a\x00b"}
    put(saver, "go", 0x2FFF, {**values, "from": ["python"]}, tup.config["configurable"]["checkpoint_id"],
        fresh=["from"], before=cp["channel_versions"], metadata={"user": "python"})


def move(saver):
    config = {"configurable": {"thread_id": "moved", "checkpoint_ns": ""}}
    tup = saver.get_tuple(config)
    cp = {**tup.checkpoint, **{k: v for k, v in empty_checkpoint().items() if k in ("id", "ts")}}
    saver.put(tup.config, cp, {"source": "update", "step": 99, "parents": {}}, {})


def sleeping(saver):
    State = TypedDict("State", {"n": int})
    graph = StateGraph(State).add_node("nap", lambda state: None).add_edge(START, "nap").compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    state = graph.get_state(config)
    print(json.dumps({"next": list(state.next), "values": state.values, "interrupts": [[i.id, i.value] for i in state.interrupts]}))
    at = {"thread_id": "copy", "checkpoint_ns": ""}
    for tup in reversed(list(saver.list(config))):
        put = saver.put({"configurable": at}, tup.checkpoint, tup.metadata, tup.checkpoint["channel_versions"])
        at = put["configurable"]
        for task in dict.fromkeys(w[0] for w in tup.pending_writes):
            saver.put_writes(put, [w[1:] for w in tup.pending_writes if w[0] == task], task)


command, url = sys.argv[1:]
with PostgresSaver.from_conn_string(url) as saver:
    if command == "write":
        saver.setup()
        write(saver)
        dump(saver)
    elif command == "read":
        saver.setup()
        dump(saver)
    elif command == "resume":
        resume(saver)
    elif command == "move":
        move(saver)
    elif command == "sleeping":
        sleeping(saver)
    elif command == "filter":
        for filter in json.load(sys.stdin):
            print(json.dumps([t.config["configurable"]["checkpoint_id"] for t in saver.list(None, filter=filter)]))
