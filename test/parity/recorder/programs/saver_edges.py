"""The saver called directly, where no graph would lead it."""

from __future__ import annotations

from typing import Any

from ..saver import RecordingSaver
from . import program


def _at(thread: str, checkpoint_id: str | None = None, ns: str = "", **extra: Any) -> Any:
    conf: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": ns, **extra}
    if checkpoint_id is not None:
        conf["checkpoint_id"] = checkpoint_id
    return {"configurable": conf}


def _checkpoint(checkpoint_id: str, values: dict[str, Any], versions: dict[str, Any], **rest: Any) -> Any:
    return {
        "v": 4,
        "id": checkpoint_id,
        "ts": "2026-01-19T10:17:07.498064+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
        **rest,
    }


def _loop(step: int, **more: Any) -> Any:
    return {"source": "loop", "step": step, "parents": {}, **more}


def _values_and_versions(saver: RecordingSaver) -> None:
    """A version without value, a removed channel, values nobody announced."""
    put = saver.put
    put(_at("values"), _checkpoint("01", {"a": 1}, {"a": 1, "b": 1}), _loop(0), {"a": 1, "b": 1})
    # "a" is handed over changed, but its version is not new: the old value stays.
    put(_at("values", "01"), _checkpoint("02", {"a": 99, "b": 2}, {"a": 1, "b": 2}), _loop(1), {"b": 2})
    # "b" loses its value at a new version; "a" leaves the versions altogether.
    put(_at("values", "02"), _checkpoint("03", {}, {"b": 3}), _loop(2), {"b": 3})
    put(_at("values", "03"), _checkpoint("04", {"c": "early"}, {"b": 3, "c": 7}), _loop(3), {"c": 7})
    # "c" leaves and comes back, and "a" with it, at their old versions.
    put(_at("values", "04"), _checkpoint("05", {}, {"b": 3}), _loop(4), {})
    put(_at("values", "05"), _checkpoint("06", {}, {"a": 1, "c": 7}), _loop(5), {})
    # A version nothing was ever stored for.
    put(_at("values", "06"), _checkpoint("07", {}, {"a": 41}), _loop(6), {})
    # A null is a value.
    put(_at("values", "07"), _checkpoint("08", {"a": None}, {"a": 42}), _loop(7), {"a": 42})
    put(_at("values", "08"), _checkpoint("09", {}, {}), _loop(8), {})


def _kinds_of_version(saver: RecordingSaver) -> None:
    put = saver.put
    for kind, versions in {
        "int": (1, 2, 10),
        "float": (0.5, 1.5, 1e300),
        "str": ("1", "2", "10"),
        "minted": (f"{1:032}.0.5", f"{2:032}.1e-05", f"{2:032}.0.25"),
        "large": (2**53 + 1, 2**63 - 1, 0),
    }.items():
        parent = None
        for step, version in enumerate(versions):
            checkpoint_id = f"{step:02}"
            seen = {"node": {"ch": version}, "__input__": {}}
            checkpoint = _checkpoint(
                checkpoint_id, {"ch": [kind, step]}, {"ch": version}, versions_seen=seen
            )
            put(_at(f"versions {kind}", parent), checkpoint, _loop(step), {"ch": version})
            parent = checkpoint_id
    for current in (None, 1, 41, f"{7:032}.0.123", "5"):
        saver.get_next_version(current, None)


def _ids(saver: RecordingSaver) -> None:
    """Ids are compared as strings; a parent need not exist, nor be smaller."""
    put = saver.put
    for number, checkpoint_id in enumerate(("9", "10", "1", "é", "Z", "z", "~")):
        parent = (None, "9", "absent", "10", "~", "Z", "1")[number]
        checkpoint = _checkpoint(checkpoint_id, {"n": number}, {"n": number + 1})
        put(_at("ids", parent), checkpoint, _loop(number), {"n": number + 1})
    # One id in several namespaces and threads is several checkpoints.
    for ns in ("", "child:1", "child:1|grandchild:2", "child:10", "Ω"):
        checkpoint = _checkpoint("same", {"ns": ns}, {"ns": 1}, updated_channels=["ns"])
        put(_at("same ids", None, ns), checkpoint, _loop(0, ns=ns), {"ns": 1})
        saver.put_writes(_at("same ids", "same", ns), [("w", ns)], "task")
    saver.put(_at("same ids 2"), _checkpoint("same", {}, {}), _loop(0), {})


def _put_again(saver: RecordingSaver) -> None:
    """A second put of an id replaces checkpoint, metadata and parent; writes stay."""
    put = saver.put
    put(_at("again"), _checkpoint("01", {"a": "first"}, {"a": 1}), _loop(0), {"a": 1})
    put(_at("again", "01"), _checkpoint("02", {"a": "second"}, {"a": 2}), _loop(1, old=True), {"a": 2})
    saver.put_writes(_at("again", "02"), [("a", "write")], "task", "path")
    saver.get_tuple(_at("again"))
    put(_at("again"), _checkpoint("02", {"b": "replaced"}, {"b": 1}), _loop(5, new=True), {"b": 1})
    saver.get_tuple(_at("again"))
    put(_at("again", "01"), _checkpoint("02", {"b": "same again"}, {"b": 2}), _loop(5), {"b": 2})


def _writes(saver: RecordingSaver) -> None:
    """First write wins at a position, the last one wins for special channels."""
    saver.put(_at("writes"), _checkpoint("01", {}, {}), _loop(0), {})
    write = saver.put_writes
    here = _at("writes", "01")
    write(here, [("a", 1), ("b", 2)], "t1", "~1")
    write(here, [("a", "ignored"), ("b", "ignored"), ("c", 3)], "t1", "~1")
    write(here, [("__error__", "first error")], "t2", "~2")
    write(here, [("a", 1), ("__error__", "second error"), ("b", 2)], "t2", "~2")
    write(here, [("__interrupt__", ["one"]), ("__resume__", ["r1"])], "t3", "~3")
    write(here, [("__resume__", ["r1", "r2"]), ("__interrupt__", ["two"])], "t3", "~3")
    write(here, [("__scheduled__", 1), ("x", 1), ("__scheduled__", 2)], "t4", "~4")
    write(here, [("__error_source_node__", "node"), ("__no_writes__", None)], "t5", "~5")
    write(here, [("__error_source_node__", "ignored")], "t5", "~5")
    write(here, [], "t6", "~6")
    write(here, [("same", 1), ("same", 2), ("same", 1)], "t7", "~7")
    # The order of arrival is not the order of tasks or paths.
    write(here, [("late path", 1)], "a task", "~9")
    write(here, [("early path", 1)], "z task", "~0")
    write(here, [("no path", 1)], "m task")
    saver.get_tuple(here)
    # Writes to a checkpoint that comes later, and to one that never comes.
    write(_at("writes", "02"), [("before", "its checkpoint")], "t1", "~1")
    write(_at("writes", "99"), [("for", "nobody")], "t1", "~1")
    saver.get_tuple(_at("writes", "99"))
    saver.put(_at("writes", "01"), _checkpoint("02", {}, {}), _loop(1), {})
    write(_at("writes", "02"), [("before", "ignored"), ("after", 1)], "t1", "~1")
    # A thread of nothing but writes.
    write(_at("writes only", "01"), [("a", 1)], "t1")


def _metadata(saver: RecordingSaver) -> None:
    awkward = {
        "source": "update",
        "step": 0,
        "parents": {"": "p", "child:1": "q"},
        "none": None,
        "list": [1, 2.5, "three", None, {"four": 4}],
        "deep": {"a": {"b": {"c": [True, False]}}},
        "big": 2**53 + 1,
        "small": -(2**63),
        "float": 1.0,
        "zero": 0,
        "empty": "",
        "nul": "a\x00b",
        "writes": {"node": "kept by the in-memory saver"},
    }
    config = _at("metadata", user_id="u", flag=True, count=3, share=0.25, step=77, __hidden="x")
    config["metadata"] = {"user_id": "metadata first", "thread_id": "excluded", "tag": "t"}
    saver.put(config, _checkpoint("01", {}, {}), awkward, {})
    saver.put(_at("metadata", "01"), _checkpoint("02", {}, {}), {}, {})
    here = {"configurable": {"thread_id": "metadata"}}
    for query in (
        {"none": None},
        {"list": [1, 2.5, "three", None, {"four": 4}]},
        {"list": [1, 2.5, "three"]},
        {"deep": {"a": {"b": {"c": [True, False]}}}},
        {"deep": {"a": {}}},
        {"parents": {"child:1": "q", "": "p"}},
        {"big": 2**53 + 1},
        {"big": 2**53},
        {"float": 1},
        {"zero": 0.0},
        {"zero": ""},
        {"empty": ""},
        {"nul": "ab"},
        {"share": 0.25, "flag": True},
        {"user_id": "metadata first", "tag": "t"},
        {"user_id": "u"},
        {"__hidden": "x"},
        {"__hidden": None},
        {"thread_id": None},
    ):
        list(saver.list(here, filter=query))


def _large_values(saver: RecordingSaver) -> None:
    """Values larger than a block, changed a little at a time."""
    text = [f"line {number} of a long document" for number in range(4000)]
    parent = None
    for step in range(6):
        text[step * 600] = f"changed in step {step}"
        text.append(f"added in step {step}")
        checkpoint_id = f"{step:02}"
        version = step + 1
        checkpoint = _checkpoint(checkpoint_id, {"text": text}, {"text": version})
        saver.put(_at("large", parent), checkpoint, _loop(step), {"text": version})
        parent = checkpoint_id
    saver.put_writes(_at("large", parent), [("text", bytes(range(256)) * 800)], "task")


def _listings(saver: RecordingSaver) -> None:
    """Bounds that name no checkpoint, and questions that contradict each other."""
    here: Any = {"configurable": {"thread_id": "ids"}}
    for before in ("5", "", "zz", "absent"):
        list(saver.list(here, before=_at("ids", before)))
        list(saver.list(here, before=_at("another thread", before), limit=2))
    list(saver.list(here, before=_at("ids")))
    list(saver.list(_at("ids", "9"), before=_at("ids", "9")))
    list(saver.list(_at("ids", "9"), before=_at("ids", "Z")))
    list(saver.list(_at("ids", "9"), filter={"step": 3}))
    list(saver.list(here, filter={"source": "loop"}, before=_at("ids", "Z"), limit=1))
    list(saver.list({"configurable": {"thread_id": "same ids", "checkpoint_id": "same"}}))
    list(saver.list(None, before=_at("", "02"), limit=5))
    list(saver.list(here, limit=-1))


@program("saver_edges", "The saver called directly: what its contract allows and graphs do not do.")
def saver_edges(saver: RecordingSaver) -> None:
    _values_and_versions(saver)
    _kinds_of_version(saver)
    _ids(saver)
    _put_again(saver)
    _writes(saver)
    _metadata(saver)
    _large_values(saver)
    _listings(saver)
    saver.delete_thread("writes")
    saver.get_tuple(_at("writes", "01"))
    saver.put(_at("writes"), _checkpoint("01", {"a": "new life"}, {"a": 1}), _loop(0), {"a": 1})
