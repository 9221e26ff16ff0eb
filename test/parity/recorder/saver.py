"""A saver that answers like InMemorySaver, because it is one, and writes down every answer.

Values appear in a fixture as the bytes InMemorySaver keeps, never as a second
encoding of what it decoded. During an answer the serializer remembers from
which bytes each decoded object came, and the answer's objects are traced back
to them by identity. Identity is enough: objects that Python shares (None,
small ints, interned strings) have one encoding each.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from .fixture import Fixture, Typed

EMPTY: Typed = ("empty", b"")


class _TracingSerializer(JsonPlusSerializer):
    """Remembers, while asked to, the bytes behind each object it decodes."""

    def __init__(self) -> None:
        super().__init__()
        self._origin: dict[int, tuple[Any, Typed]] | None = None

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        self._origin = {}
        try:
            yield
        finally:
            self._origin = None

    def loads_typed(self, data: Typed) -> Any:
        value = super().loads_typed(data)
        if self._origin is not None:
            # The object is kept, so its id cannot be given to another one.
            self._origin[id(value)] = (value, data)
        return value

    def origin(self, value: Any) -> Typed:
        assert self._origin is not None
        return self._origin[id(value)][1]


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _same(a: Any, b: Any) -> bool:
    """Equality as Python has it, except that True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


def plain_config(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The part of a config a saver can see: LangGraph's own wiring is left out."""
    if config is None:
        return None
    plain: dict[str, Any] = {}
    for section in ("configurable", "metadata"):
        entries = {
            key: value
            for key, value in (config.get(section) or {}).items()
            if not key.startswith("__pregel_") and value is not None and _is_json(value)
        }
        if entries:
            plain[section] = entries
    return plain


class RecordingSaver(InMemorySaver):
    """InMemorySaver whose calls and answers go to a fixture.

    The async methods of InMemorySaver call the sync ones, so each call is
    written down once whichever way it came.
    """

    def __init__(self, fixture: Fixture) -> None:
        super().__init__(serde=_TracingSerializer())
        self.fixture = fixture
        # What each checkpoint meant: (thread, ns, id) -> (versions, channel -> stored value).
        # InMemorySaver keys values by (channel, version) alone, so a branch that
        # reaches a version another branch has reached overwrites its value; the
        # fixture then also says what the checkpoint was given.
        self._meant: dict[tuple[str, str, str], tuple[dict, dict[str, Typed]]] = {}

    # -- writing --

    def put(self, config, checkpoint, metadata, new_versions):  # type: ignore[no-untyped-def]
        answer = super().put(config, checkpoint, metadata, new_versions)
        conf = config["configurable"]
        thread, ns = conf["thread_id"], conf["checkpoint_ns"]
        stored = {
            channel: self.blobs[(thread, ns, channel, version)]
            for channel, version in new_versions.items()
        }
        self._remember(conf, checkpoint, stored)
        carried = {
            channel: self.fixture.blob(self.serde.dumps_typed(value))
            for channel, value in checkpoint["channel_values"].items()
            if channel not in new_versions
        }
        line = {
            "config": plain_config(config),
            "checkpoint": {k: v for k, v in checkpoint.items() if k != "channel_values"},
            "metadata": metadata,
            "new_versions": new_versions,
            "values": {
                channel: self.fixture.blob(typed)
                for channel, typed in stored.items()
                if typed != EMPTY
            },
            "answer": plain_config(answer),
        }
        if carried:
            line["carried"] = carried
        self.fixture.call("put", **line)
        return answer

    def _remember(self, conf, checkpoint, stored) -> None:  # type: ignore[no-untyped-def]
        thread, ns = conf["thread_id"], conf["checkpoint_ns"]
        parent = self._meant.get((thread, ns, conf.get("checkpoint_id") or ""))
        values: dict[str, Typed] = {}
        for channel, version in checkpoint["channel_versions"].items():
            if channel in stored:
                typed = stored[channel]
            elif parent is not None and parent[0].get(channel) == version:
                typed = parent[1].get(channel, EMPTY)
            else:
                typed = self.blobs.get((thread, ns, channel, version), EMPTY)
            if typed != EMPTY:
                values[channel] = typed
        versions = dict(checkpoint["channel_versions"])
        self._meant[(thread, ns, checkpoint["id"])] = (versions, values)

    def put_writes(self, config, writes, task_id, task_path=""):  # type: ignore[no-untyped-def]
        writes = list(writes)
        super().put_writes(config, writes, task_id, task_path)
        self.fixture.call(
            "put_writes",
            config=plain_config(config),
            writes=[
                [channel, self.fixture.blob(self.serde.dumps_typed(value))]
                for channel, value in writes
            ],
            task_id=task_id,
            task_path=task_path,
        )

    def delete_thread(self, thread_id: str) -> None:
        super().delete_thread(thread_id)
        for key in [key for key in self._meant if key[0] == thread_id]:
            del self._meant[key]
        self.fixture.call("delete_thread", thread_id=thread_id)

    def get_next_version(self, current, channel):  # type: ignore[no-untyped-def]
        answer = super().get_next_version(current, channel)
        self.fixture.call("get_next_version", current=current, answer=answer)
        return answer

    # -- reading --

    def get_tuple(self, config) -> CheckpointTuple | None:  # type: ignore[no-untyped-def]
        with self.serde.tracing():
            found = super().get_tuple(config)
            number = None if found is None else self._tuple_number(found)
        line: dict[str, Any] = {"config": plain_config(config), "answer": number}
        if found is not None:
            returned = plain_config(found.config)
            if returned != self._triple(found):
                line["answer_config"] = returned
        self.fixture.call("get_tuple", **line)
        return found

    def list(self, config, *, filter=None, before=None, limit=None):  # type: ignore[no-untyped-def]
        with self.serde.tracing():
            found = list(super().list(config, filter=filter, before=before, limit=limit))
            numbers = [self._tuple_number(one) for one in found]
        line: dict[str, Any] = {
            "config": plain_config(config),
            "filter": filter,
            "before": plain_config(before),
            "limit": limit,
            "answer": numbers,
        }
        restated = self._restated(config, filter, before, limit, numbers)
        if restated["rules"]:
            line["restated"] = restated
        self.fixture.call("list", **line)
        yield from found

    def _restated(self, config, filter, before, limit, numbers):  # type: ignore[no-untyped-def]
        """The answer under the two rules of order and equality that stele has instead.

        Ids descend over all namespaces and threads, as in LangGraph's SQL
        savers, and a truth value equals no number. ``rules`` names those that
        change this answer.
        """
        with self.serde.tracing():
            every = list(super().list(config, before=before))
            every.sort(key=lambda one: self._key(one)[:2])
            every.sort(key=lambda one: one.checkpoint["id"], reverse=True)
            asked = list((filter or {}).items())
            loose = [one for one in every if all(one.metadata.get(k) == v for k, v in asked)]
            strict = [one for one in every if all(_same(one.metadata.get(k), v) for k, v in asked)]
            if limit is not None:
                loose, strict = loose[: max(limit, 0)], strict[: max(limit, 0)]
            ordered = [self._tuple_number(one) for one in loose]
            answer = [self._tuple_number(one) for one in strict]
        rules = []
        if ordered != numbers:
            rules.append("newest_first")
        if answer != ordered:
            rules.append("bool_is_no_number")
        return {"rules": rules, "answer": answer}

    def get_delta_channel_history(self, *, config, channels: Sequence[str]):  # type: ignore[no-untyped-def]
        with self.serde.tracing():
            found = super().get_delta_channel_history(config=config, channels=channels)
            answer = {}
            for channel, history in found.items():
                entry: dict[str, Any] = {
                    "writes": [self._write(write) for write in history["writes"]]
                }
                if "seed" in history:
                    entry["seed"] = self._number(history["seed"])
                answer[channel] = entry
        self.fixture.call(
            "get_delta_channel_history",
            config=plain_config(config),
            channels=list(channels),
            answer=answer,
        )
        return found

    # -- answers as numbers --

    def _number(self, value: Any) -> int:
        return self.fixture.blob(self.serde.origin(value))

    def _write(self, write: tuple[str, str, Any]) -> list[Any]:
        task_id, channel, value = write
        return [task_id, channel, self._number(value)]

    @staticmethod
    def _key(found: CheckpointTuple) -> tuple[str, str, str]:
        conf = found.config["configurable"]
        return conf["thread_id"], conf.get("checkpoint_ns", ""), found.checkpoint["id"]

    def _triple(self, found: CheckpointTuple) -> dict[str, Any]:
        thread, ns, checkpoint_id = self._key(found)
        return {
            "configurable": {
                "thread_id": thread,
                "checkpoint_ns": ns,
                "checkpoint_id": checkpoint_id,
            }
        }

    def _tuple_number(self, found: CheckpointTuple) -> int:
        key = self._key(found)
        values = {
            channel: self._number(value)
            for channel, value in found.checkpoint["channel_values"].items()
        }
        body: dict[str, Any] = {
            "config": self._triple(found),
            "checkpoint": {
                k: v for k, v in found.checkpoint.items() if k != "channel_values"
            },
            "values": values,
            "metadata": found.metadata,
            "parent_config": plain_config(found.parent_config),
            "pending_writes": [self._write(write) for write in found.pending_writes or ()],
        }
        meant = {
            channel: self.fixture.blob(typed)
            for channel, typed in self._meant[key][1].items()
        }
        if meant != values:
            body["meant_values"] = meant
        return self.fixture.tuple(body)


class CountingSaver(RecordingSaver):
    """Mints integer versions, as BaseCheckpointSaver does when nothing overrides it.

    Two branches from one checkpoint then reach the very same versions. The
    versions are this saver's own, so they are not recorded as answers.
    """

    def get_next_version(self, current, channel):  # type: ignore[no-untyped-def]
        return BaseCheckpointSaver.get_next_version(self, current, channel)
