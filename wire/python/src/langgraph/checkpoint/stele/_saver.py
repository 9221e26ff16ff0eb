"""The savers."""

from __future__ import annotations

import os
import random
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import Any, Final, Self, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.stele._client import (
    DEFAULT_CONNECTIONS,
    DEFAULT_IDLE_EXIT,
    DEFAULT_START_TIMEOUT,
    DEFAULT_TIMEOUT,
    Client,
    Connected,
    InLoop,
    expiry,
    whole,
)
from langgraph.checkpoint.stele._endpoint import parse_url
from langgraph.checkpoint.stele._wire import Params, typed
from langgraph.checkpoint.stele.errors import InvalidArgumentError, UnsupportedError

_STRATEGIES: Final = {
    "keep_latest": "keep_latest",
    "delete": "delete",
    "delete_all": "delete",  # as the server of `langgraph dev` says it
}


# The owner of writes that belong to no task, such as the input of a run.
_NULL_TASK: Final = "00000000-0000-0000-0000-000000000000"

# After a task that writes these a run goes no further, as a rule.
_STOPS: Final = frozenset(("__interrupt__", "__error__"))

_NEVER_DEFERRED: Final = frozenset((*WRITES_IDX_MAP, "__error_source_node__"))

_MAX_OVERTAKEN: Final = 1024


class _Overtaken:
    """The checkpoints that a run has gone past before they are put.

    LangGraph puts a checkpoint when the one before is put, and runs on meanwhile. So
    where writes of tasks of a later checkpoint are stored first, the put of that one
    follows, however the run ends, and its sync is enough for both. Writes of the
    checkpoint itself do not tell: a run may end between two supersteps. Nor is anything
    deferred that belongs to a checkpoint at which a task has asked or failed: the run
    ends there when the other tasks have ended, and nothing durable need follow.

    Each step is one operation of a dictionary. A lock would be held after some forks.
    """

    def __init__(self) -> None:
        # Will a put of the checkpoint that has writes follow?
        self._follows: OrderedDict[tuple[str, str, str], bool] = OrderedDict()
        # The latest checkpoint of a thread and namespace that has writes.
        self._latest: OrderedDict[tuple[str, str], str] = OrderedDict()
        # The checkpoints at which a task has asked or failed.
        self._stopped: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        # The greatest id of those that are forgotten: they are among those up to it.
        self._forgotten = ""

    def stop(self, params: Params) -> None:
        """A task is about to store that it asks or fails."""
        self._stopped[params["thread"], params["ns"], params["id"]] = None
        if len(self._stopped) > _MAX_OVERTAKEN:
            with suppress(KeyError):
                (_, _, id), _ = self._stopped.popitem(last=False)
                self._forgotten = max(self._forgotten, id)

    def stops(self, params: Params, id: str) -> bool:
        """May a run end at this checkpoint, since a task has asked or failed?"""
        place = params["thread"], params["ns"], id
        return id <= self._forgotten or place in self._stopped

    def wrote(self, params: Params) -> None:
        """Deferred writes have been stored."""
        thread, ns, id = params["thread"], params["ns"], params["id"]
        # Not if the checkpoint was there first.
        if self._follows.setdefault((thread, ns, id), True):
            if not self._later(thread, ns, id):
                self._latest[thread, ns] = id
            _bound(self._latest)
        _bound(self._follows)

    def has(self, params: Params) -> bool:
        """May the put of this checkpoint be deferred?"""
        thread, ns, id = params["thread"], params["ns"], params["checkpoint"]["id"]
        if parent := params["parent"]:
            self._follows[thread, ns, parent] = False
        return (
            self._follows.get((thread, ns, id), False)
            and self._later(thread, ns, id)
            and not self.stops(params, id)
        )

    def put(self, params: Params) -> None:
        """A checkpoint has been put."""
        place = params["thread"], params["ns"], params["checkpoint"]["id"]
        self._follows[place] = False
        _bound(self._follows)

    def _later(self, thread: str, ns: str, id: str) -> bool:
        latest = self._latest.get((thread, ns), "")
        return latest > id and self._follows.get((thread, ns, latest), False)


def _bound(found: OrderedDict[Any, Any]) -> None:
    # What is forgotten is synced.
    if len(found) > _MAX_OVERTAKEN:
        with suppress(KeyError):
            found.popitem(last=False)


class ThreadInfo(TypedDict):
    """What a store knows of a thread: an element of threads()."""

    thread: str
    head: str
    updated_at: int
    status: str
    graph: str
    next: list[str]


class SteleSaver(Connected, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer on a stele store.

    The blocking methods and those of asyncio each do their own I/O, so a graph may be
    run either way. All are safe for use by many threads and event loops at once, and
    after a fork. Parameters that the constructors share:

    Args:
        serde: The serializer of values; LangGraph's own by default. Metadata is not
            encrypted by an encrypting one: the store reads it to filter.
        timeout: Seconds after which a call fails with SteleTimeoutError, whatever it
            waits for; None waits
            for ever.
        max_connections: The most connections of this process's threads. An event loop
            has one of its own.
        defer_writes: True if the writes of a task that ended well need not be on disk
            when put_writes returns. They survive the death of every process at once,
            and a loss of power with the next call that is durable, or some 10 ms
            later. So the writes of a superstep share the sync of its checkpoint, as in
            stele's own engine. Where a task has asked or failed, the writes of those
            beside it are durable as well. Questions, answers, errors and inputs are
            never deferred. A checkpoint is if such writes of the next one were stored
            first: then a run with durability "async" is ahead of it, and the put of the
            next one follows and syncs both. The last checkpoint of a run is never
            deferred. By default it is true, but false for a server behind tcp: or tls:.
            When the machine of such a server loses its power, a run may go on
            elsewhere: its later checkpoints are stored, and lack the values that only
            a deferred one had.
    """

    def __init__(
        self,
        client: Client,
        *,
        serde: SerializerProtocol | None = None,
        defer_writes: bool = True,
    ) -> None:
        self._client = client  # the first, as it says best why this cannot be pickled
        super().__init__(serde=serde)
        self._defer_writes = defer_writes
        self._overtaken = _Overtaken()

    @classmethod
    def from_dir(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        serde: SerializerProtocol | None = None,
        defer_writes: bool = True,
        timeout: float | None = DEFAULT_TIMEOUT,
        start_timeout: float = DEFAULT_START_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
        idle_exit: float = DEFAULT_IDLE_EXIT,
        serve_args: Sequence[str] = (),
        binary: str | os.PathLike[str] | None = None,
    ) -> Self:
        """A saver on the store in a directory.

        The first call starts `stele serve` for the directory, unless a server is
        there; every process that names the directory shares it. It survives this
        process, and is started again when it is killed.

        Args:
            path: The directory. It is made if its parent exists.
            create: False to refuse a directory that does not exist.
            start_timeout: Seconds to wait for a server that starts.
            idle_exit: Seconds without any connection after which the server ends. What
                holds is what the process says that starts the server.
            serve_args: More arguments of `stele serve`, for a server that this
                starts. One that runs already keeps its own.
            binary: The program to start; the wheel's own by default.

        Raises:
            DirectoryError: The path cannot be a store.
        """
        client = Client.from_dir(
            path,
            create=create,
            timeout=timeout,
            start_timeout=start_timeout,
            max_connections=max_connections,
            idle_exit=idle_exit,
            serve_args=serve_args,
            binary=binary,
        )
        return cls(client, serde=serde, defer_writes=defer_writes)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        serde: SerializerProtocol | None = None,
        defer_writes: bool | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_START_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> Self:
        """A saver on a server that runs elsewhere.

        Args:
            url: unix:PATH, tcp:HOST:PORT or tls:HOST:PORT.
            token: The server's token; $STELE_TOKEN by default.
            tls: For tls:, the system's certificates by default.
            connect_timeout: Seconds to try to connect, and to wait for a server that
                is being restarted.
        """
        client = Client.from_url(
            url,
            token=token,
            tls=tls,
            timeout=timeout,
            connect_timeout=connect_timeout,
            max_connections=max_connections,
        )
        if defer_writes is None:
            defer_writes = parse_url(url, token).kind == "unix"
        return cls(client, serde=serde, defer_writes=defer_writes)

    # LangGraph's contract.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that config names, or the newest; None if there is none."""
        return self._one(self._blocking.call("get", _target(config)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As get_tuple."""
        return self._one(await self._client.acall("get", _target(config)))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints that are asked for, newest first.

        They come in batches, so a listing of any length takes little memory. The
        iterator has a connection until it ends or is closed.
        """
        params = self._query(config, filter, before, limit)
        with closing(self._blocking.stream("list", params, _tuple_key)) as items:
            for item in items:
                yield self._tuple(item)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As list."""
        params = self._query(config, filter, before, limit)
        async with aclosing(self._client.astream("list", params, _tuple_key)) as items:
            async for item in items:
                yield self._tuple(item)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        It is durable when this returns, unless it is deferred; see the class.
        """
        params = self._put(config, checkpoint, metadata, new_versions)
        self._blocking.write("put", params)
        self._overtaken.put(params)
        self._settle(params, checkpoint["id"])
        return _config(params["thread"], params["ns"], checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As put."""
        params = self._put(config, checkpoint, metadata, new_versions)
        await self._client.awrite("put", params)
        self._overtaken.put(params)
        await self._asettle(params, checkpoint["id"])
        return _config(params["thread"], params["ns"], checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task, all or none.

        They are durable when this returns, unless they are deferred; see the class.
        """
        params = self._put_writes(config, writes, task_id, task_path)
        self._blocking.write("put_writes", params)
        if "defer_sync" in params:
            self._overtaken.wrote(params)
        self._settle(params, params["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As put_writes."""
        params = self._put_writes(config, writes, task_id, task_path)
        await self._client.awrite("put_writes", params)
        if "defer_sync" in params:
            self._overtaken.wrote(params)
        await self._asettle(params, params["id"])

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints and writes of a thread."""
        self._blocking.write("delete_thread", {"thread": _name(thread_id)})

    async def adelete_thread(self, thread_id: str) -> None:
        """As delete_thread."""
        await self._client.awrite("delete_thread", {"thread": _name(thread_id)})

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, in all threads.

        What a checkpoint that stays needs for its delta channels stays, too.
        """
        self._blocking.write("delete_for_runs", {"runs": _names(run_ids)})

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As delete_for_runs."""
        await self._client.awrite("delete_for_runs", {"runs": _names(run_ids)})

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its history. It takes little room: values are shared.

        Raises:
            ThreadExistsError: The target has checkpoints.
        """
        self._blocking.write("copy_thread", _copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As copy_thread."""
        await self._client.awrite(
            "copy_thread", _copy(source_thread_id, target_thread_id)
        )

    def prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """Delete all but the newest checkpoint of each namespace, or all of them.

        What the newest one needs for its delta channels stays.

        Args:
            strategy: "keep_latest", or "delete".
        """
        self._blocking.write("prune", _prune(thread_ids, strategy))

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """As prune."""
        await self._client.awrite("prune", _prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes of delta channels since the nearest stored value, and it."""
        if not channels:
            return {}
        params = _target(config)
        params["channels"] = _names(channels)
        return self._history(self._blocking.call("delta_history", params))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As get_delta_channel_history."""
        if not channels:
            return {}
        params = _target(config)
        params["channels"] = _names(channels)
        return self._history(await self._client.acall("delta_history", params))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after current, in the form of LangGraph's savers.

        The part after the point is random, so that two forks of a checkpoint have
        different versions.
        """
        if current is None:
            n = 0
        elif isinstance(current, int):  # written by a saver that counts
            n = current
        else:
            n = int(current.partition(".")[0])
        return f"{n + 1:032}.{random.random():016}"

    # What stele has beyond the contract.

    def flush(self) -> None:
        """Return when all calls that were answered are durable."""
        self._blocking.call("sync", {})

    async def aflush(self) -> None:
        """As flush."""
        await self._client.acall("sync", {})

    def threads(
        self,
        *,
        prefix: str | None = None,
        status: str | None = None,
        metadata: dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[ThreadInfo]:
        """The threads of the store, without their checkpoints.

        Args:
            prefix: Only threads whose id begins with it.
            status: Only "waiting", "done", "unfinished" or "failed" ones.
            metadata: Only those whose newest checkpoint has these entries.
        """
        params = self._threads(prefix, status, metadata, limit)
        with closing(self._blocking.stream("threads", params, _thread_key)) as items:
            for item in items:
                yield cast(ThreadInfo, item)

    async def athreads(
        self,
        *,
        prefix: str | None = None,
        status: str | None = None,
        metadata: dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ThreadInfo]:
        """As threads."""
        params = self._threads(prefix, status, metadata, limit)
        async with aclosing(
            self._client.astream("threads", params, _thread_key)
        ) as items:
            async for item in items:
                yield cast(ThreadInfo, item)

    def set_ttl(self, thread_id: str, ttl: float | None) -> None:
        """Let a thread expire ttl seconds after its last write; None: never."""
        self._blocking.write("set_ttl", _ttl(thread_id, ttl))

    async def aset_ttl(self, thread_id: str, ttl: float | None) -> None:
        """As set_ttl."""
        await self._client.awrite("set_ttl", _ttl(thread_id, ttl))

    def erase(self, thread_ids: Sequence[str]) -> None:
        """Delete threads and overwrite or drop every byte that held them."""
        self._blocking.write("erase", {"threads": _names(thread_ids)})

    async def aerase(self, thread_ids: Sequence[str]) -> None:
        """As erase."""
        await self._client.awrite("erase", {"threads": _names(thread_ids)})

    def stats(self) -> dict[str, Any]:
        """The store's figures."""
        return cast(dict[str, Any], self._blocking.call("stats", {}))

    async def astats(self) -> dict[str, Any]:
        """As stats."""
        return cast(dict[str, Any], await self._client.acall("stats", {}))

    def _settle(self, params: Params, id: str) -> None:
        """Sync what was deferred, if a task has asked or failed meanwhile."""
        if "defer_sync" in params and self._overtaken.stops(params, id):
            with suppress(UnsupportedError):  # then nothing is deferred
                self.flush()

    async def _asettle(self, params: Params, id: str) -> None:
        """As _settle."""
        if "defer_sync" in params and self._overtaken.stops(params, id):
            with suppress(UnsupportedError):
                await self.aflush()

    # To and from the wire.

    def _plain(self) -> SerializerProtocol:
        """The serializer of what the store itself reads: metadata and filters."""
        serde = self.serde
        if isinstance(serde, JsonPlusSerializer):
            return serde
        if isinstance(serde, EncryptedSerializer) and isinstance(
            serde.serde, JsonPlusSerializer
        ):
            return serde.serde
        return _PLAIN

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Params:
        configurable = config["configurable"]
        values = checkpoint["channel_values"]
        dumps = self.serde.dumps_typed
        versions = checkpoint["channel_versions"]
        seen = checkpoint["versions_seen"]
        params: Params = {
            "thread": _thread(configurable),
            "ns": configurable.get("checkpoint_ns") or "",
            "parent": configurable.get("checkpoint_id"),
            "checkpoint": {
                "v": checkpoint["v"],
                "id": checkpoint["id"],
                "ts": checkpoint["ts"],
                "values": {
                    channel: dumps(values[channel])
                    for channel in new_versions
                    if channel in values
                },
                "versions": versions,
                "seen": seen,
                "updated": checkpoint.get("updated_channels"),
            },
            "metadata": typed(
                self._plain(), "metadata", get_checkpoint_metadata(config, metadata)
            ),
            "new_versions": new_versions,
        }
        if self._overtaken.has(params):
            params["defer_sync"] = True
        return params

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Params:
        configurable = config["configurable"]
        dumps = self.serde.dumps_typed
        params = {
            "thread": _thread(configurable),
            "ns": configurable.get("checkpoint_ns") or "",
            "id": configurable["checkpoint_id"],
            "task": task_id,
            "path": task_path,
            "writes": [(channel, dumps(value)) for channel, value in writes],
        }
        channels = [channel for channel, _ in writes]
        if not _STOPS.isdisjoint(channels):
            self._overtaken.stop(params)
        if (
            self._defer_writes
            and task_id != _NULL_TASK
            and _NEVER_DEFERRED.isdisjoint(channels)
            and not self._overtaken.stops(params, params["id"])
        ):
            params["defer_sync"] = True
        return params

    def _query(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Params:
        params: Params = {}
        if config is not None:
            configurable = config["configurable"]
            params["thread"] = _thread(configurable)
            if (ns := configurable.get("checkpoint_ns")) is not None:
                params["ns"] = ns
            if id := configurable.get("checkpoint_id"):
                params["id"] = id
        if before is not None and (
            id := before.get("configurable", {}).get("checkpoint_id")
        ):
            params["before"] = id
        if filter:
            params["filter"] = typed(self._plain(), "filter", filter)
        if limit is not None:
            params["limit"] = whole("limit", limit)
        return params

    def _threads(
        self,
        prefix: str | None,
        status: str | None,
        metadata: dict[str, Any] | None,
        limit: int | None,
    ) -> Params:
        params: Params = {}
        if prefix is not None:
            params["prefix"] = prefix
        if status is not None:
            params["status"] = status
        if metadata:
            params["metadata"] = typed(self._plain(), "metadata", metadata)
        if limit is not None:
            params["limit"] = whole("limit", limit)
        return params

    def _one(self, answer: Any) -> CheckpointTuple | None:
        found = answer["tuple"]
        return None if found is None else self._tuple(found)

    def _tuple(self, found: dict[str, Any]) -> CheckpointTuple:
        loads = self.serde.loads_typed
        thread, ns, parent = found["thread"], found["ns"], found["parent"]
        return CheckpointTuple(
            config=_config(thread, ns, found["id"]),
            checkpoint={
                "v": found["v"],
                "id": found["id"],
                "ts": found["ts"],
                "channel_values": {
                    channel: loads((type_, data))
                    for channel, (type_, data) in found["values"].items()
                },
                "channel_versions": found["versions"],
                "versions_seen": found["seen"],
                "updated_channels": found["updated"],
            },
            metadata=self._plain().loads_typed(tuple(found["metadata"])),
            parent_config=None if parent is None else _config(thread, ns, parent),
            pending_writes=[
                (task, channel, loads((type_, data)))
                for task, channel, (type_, data), _, _ in found["writes"]
            ],
        )

    def _history(self, answer: dict[str, Any]) -> dict[str, DeltaChannelHistory]:
        loads = self.serde.loads_typed
        histories: dict[str, DeltaChannelHistory] = {}
        for channel, found in answer.items():
            history: DeltaChannelHistory = {
                "writes": [
                    (write[0], write[1], loads(tuple(write[2])))
                    for write in found["writes"]
                ]
            }
            if found["seed"] is not None:
                history["seed"] = loads(tuple(found["seed"]))
            histories[channel] = history
        return histories


class AsyncSteleSaver(InLoop, SteleSaver):
    """A LangGraph checkpointer for programs that run in an event loop.

    It is a SteleSaver whose blocking methods refuse to be called where an event loop
    runs, since they would stop the loop. From other threads they work.

    Example:
        async with AsyncSteleSaver.from_dir("stele-data") as saver:
            graph = builder.compile(checkpointer=saver)
            await graph.ainvoke(inputs, config)
    """


_PLAIN: Final = JsonPlusSerializer()


def _names(names: Iterable[str]) -> list[str]:
    """The elements, as text. A text is a sequence of texts, too: of its letters."""
    if isinstance(names, (str, bytes)):
        raise InvalidArgumentError(f"{names!r} is one name; pass a list of them")
    return [_name(name) for name in names]


def _name(name: str) -> str:
    """A name as text. None is none: all who forgot theirs would mean "None"."""
    if name is None:
        raise InvalidArgumentError("the name is None; pass the id")
    return str(name)


def _config(thread: str, ns: str, id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": ns,
            "checkpoint_id": id,
        }
    }


def _thread(configurable: dict[str, Any]) -> str:
    thread = configurable["thread_id"]
    if thread is None:  # all who forgot theirs would share the thread "None"
        raise InvalidArgumentError("the config's thread_id is None; name a thread")
    return str(thread)


def _target(config: RunnableConfig) -> Params:
    configurable = config["configurable"]
    params: Params = {
        "thread": _thread(configurable),
        "ns": configurable.get("checkpoint_ns") or "",
    }
    if id := configurable.get("checkpoint_id"):
        params["id"] = id
    return params


def _copy(source: str, target: str) -> Params:
    return {"thread": _name(source), "to": _name(target)}


def _prune(threads: Sequence[str], strategy: str) -> Params:
    known = _STRATEGIES.get(strategy)
    if known is None:
        raise InvalidArgumentError(
            f"{strategy!r} is no strategy of prune; there are keep_latest and delete"
        )
    return {"threads": _names(threads), "strategy": known}


def _ttl(thread: str, ttl: float | None) -> Params:
    return {"thread": _name(thread), "ttl": -1 if ttl is None else expiry(ttl, 1)}


def _tuple_key(item: dict[str, Any]) -> tuple[Any, Any, Any]:
    return item["thread"], item["ns"], item["id"]


def _thread_key(item: dict[str, Any]) -> Any:
    return item["thread"]
