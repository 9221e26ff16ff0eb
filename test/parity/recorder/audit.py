"""Asks a saver everything about what it holds, after a program has run.

The questions are derived from the saver's content alone, so the audit of equal
recordings is equal.
"""

from __future__ import annotations

from typing import Any

from .saver import RecordingSaver


def _config(thread: str, **rest: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **rest}}


def _ask(saver: RecordingSaver, config: Any, **query: Any) -> list[Any]:
    return list(saver.list(config, **query))


def _spread(items: list[str], count: int) -> list[str]:
    """At most ``count`` items: the first, the last, and some evenly between."""
    if len(items) <= count:
        return items
    step = (len(items) - 1) / (count - 1)
    return [items[round(i * step)] for i in range(count)]


def _audit_namespace(saver: RecordingSaver, thread: str, ns: str) -> None:
    ids = sorted(saver.storage[thread][ns])
    saver.get_tuple(_config(thread, checkpoint_ns=ns))
    saver.get_tuple(_config(thread, checkpoint_ns=ns, checkpoint_id="absent"))
    for checkpoint_id in ids:
        saver.get_tuple(_config(thread, checkpoint_ns=ns, checkpoint_id=checkpoint_id))
    here = _config(thread, checkpoint_ns=ns)
    for limit in (None, 0, 1, 2):
        _ask(saver, here, limit=limit)
    for checkpoint_id in _spread(ids, 3):
        before = _config(thread, checkpoint_ns=ns, checkpoint_id=checkpoint_id)
        _ask(saver, here, before=before)
        _ask(saver, here, before=before, limit=1)
        _ask(saver, _config(thread, checkpoint_ns=ns, checkpoint_id=checkpoint_id))


def _filters(saver: RecordingSaver, thread: str) -> list[dict[str, Any]]:
    """Filters that matter for this thread: what its metadata hold, alone and joined."""
    filters: list[dict[str, Any]] = [{}, {"source": "nowhere"}, {"absent": None}]
    filters += [{"source": source} for source in ("input", "loop", "update", "fork")]
    filters += [{"step": step} for step in (-1, 0, 1)]
    filters += [{"source": "loop", "step": 1}, {"parents": {}}]
    seen: set[tuple[str, Any]] = set()
    for namespace in saver.storage[thread].values():
        for _, metadata, _ in namespace.values():
            for key, value in saver.serde.loads_typed(metadata).items():
                scalar = isinstance(value, (str, int, float, bool))
                if key not in ("source", "step", "parents") and scalar:
                    seen.add((key, value))
    ordered = sorted(seen, key=lambda pair: (pair[0], str(pair[1])))
    for key, value in ordered[:8]:
        filters += [{key: value}, {key: value, "source": "loop"}]
    return filters


def _audit_thread(saver: RecordingSaver, thread: str) -> None:
    anywhere = _config(thread)
    saver.get_tuple(anywhere)
    for ns in sorted(saver.storage[thread]):
        _audit_namespace(saver, thread, ns)
    for limit in (None, 0, 1, 2):
        _ask(saver, anywhere, limit=limit)
    for query in _filters(saver, thread):
        _ask(saver, anywhere, filter=query)
        _ask(saver, _config(thread, checkpoint_ns=""), filter=query, limit=2)
    _ask(saver, _config(thread, checkpoint_ns="no:such"))


def audit(saver: RecordingSaver) -> None:
    """Every checkpoint by id, the latest of each namespace, and the listings."""
    threads = sorted(t for t in saver.storage if any(saver.storage[t].values()))
    saver.fixture.note("audit")
    for thread in threads:
        _audit_thread(saver, thread)
    for limit in (None, 0, 1, 2):
        _ask(saver, None, limit=limit)
    _ask(saver, None, filter={"source": "input"})
    _ask(saver, None, filter={"source": "loop", "step": 0}, limit=1)
    unknown = "no such thread"
    saver.get_tuple(_config(unknown))
    saver.get_tuple(_config(unknown, checkpoint_ns="", checkpoint_id="absent"))
    _ask(saver, _config(unknown))
    saver.get_tuple(_config(""))
