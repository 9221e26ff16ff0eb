"""The stores."""

from __future__ import annotations

import functools
import inspect
import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar, cast

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

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
from langgraph.checkpoint.stele._wire import Params, typed
from langgraph.checkpoint.stele.errors import (
    InvalidArgumentError,
    ProtocolError,
    SteleError,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_M = TypeVar("_M", bound=Callable[..., Any])


def _keyed(method: _M) -> _M:
    """A method of BaseStore that makes no str of its key, such as "None" of None."""

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(
            self: BaseStore, namespace: Any, key: Any, *args: Any, **options: Any
        ) -> Any:
            return await method(self, namespace, _key(key), *args, **options)

        return cast("_M", awaited)

    @functools.wraps(method)
    def checked(
        self: BaseStore, namespace: Any, key: Any, *args: Any, **options: Any
    ) -> Any:
        return method(self, namespace, _key(key), *args, **options)

    return cast("_M", checked)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"the key of an item is {key!r}; it is a str")
    return key


class SteleStore(Connected, BaseStore):
    """A LangGraph store in a stele store, beside its checkpoints.

    A batch is one transaction, and durable when it returns. The blocking methods and
    those of asyncio each do their own I/O. All are safe for use by many threads and
    event loops at once, and after a fork.

    The store finds items by namespace, key and filter. It makes no embeddings, so a
    search with a query is an InvalidArgumentError. So is a value or a filter with a key
    that is no str: LangGraph's store in memory keeps such a key, and its PostgresStore
    makes str of it. Dicts within a value may have such keys, and come back with them.
    So is a key of an item that is no str: LangGraph's stores make a str of any object.

    Args:
        ttl: LangGraph's configuration of expiry: the default of new items, and
            whether reading an item renews it. Times are minutes, as in LangGraph.
    """

    supports_ttl = True

    def __init__(self, client: Client, *, ttl: TTLConfig | None = None) -> None:
        self._client = client
        self._serde: SerializerProtocol = JsonPlusSerializer()
        self.ttl_config = ttl

    @classmethod
    def from_dir(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        ttl: TTLConfig | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        start_timeout: float = DEFAULT_START_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
        idle_exit: float = DEFAULT_IDLE_EXIT,
        serve_args: Sequence[str] = (),
        binary: str | os.PathLike[str] | None = None,
    ) -> Self:
        """A store in a directory, as SteleSaver.from_dir; both share the server."""
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
        return cls(client, ttl=ttl)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        ttl: TTLConfig | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_START_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> Self:
        """A store on a server that runs elsewhere, as SteleSaver.from_url."""
        client = Client.from_url(
            url,
            token=token,
            tls=tls,
            timeout=timeout,
            connect_timeout=connect_timeout,
            max_connections=max_connections,
        )
        return cls(client, ttl=ttl)

    get, aget = _keyed(BaseStore.get), _keyed(BaseStore.aget)
    put, aput = _keyed(BaseStore.put), _keyed(BaseStore.aput)
    delete, adelete = _keyed(BaseStore.delete), _keyed(BaseStore.adelete)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in order, in one transaction; what they answer."""
        done = list(ops)
        if not done:
            return []
        try:
            answers = self._blocking.write("store_batch", self._ops(done))
        except (InvalidArgumentError, ProtocolError) as error:
            _name_wrong_key(done, error)
            raise
        return self._results(done, answers)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As batch."""
        done = list(ops)
        if not done:
            return []
        try:
            answers = await self._client.awrite("store_batch", self._ops(done))
        except (InvalidArgumentError, ProtocolError) as error:
            _name_wrong_key(done, error)
            raise
        return self._results(done, answers)

    def _ops(self, ops: list[Op]) -> Params:
        return {"ops": [self._op(op) for op in ops]}

    def _op(self, op: Op) -> Params:
        validate_op_namespace(op)
        params: Params
        if isinstance(op, GetOp):
            return {
                "op": "get",
                "namespace": op.namespace,
                "key": _key(op.key),
                "refresh": op.refresh_ttl,
            }
        if isinstance(op, PutOp):
            params = {"op": "put", "namespace": op.namespace, "key": _key(op.key)}
            if op.value is None:
                params["value"] = None
                return params
            if not isinstance(op.value, Mapping):
                raise InvalidArgumentError(
                    f"the value of an item is a dict, and {op.key!r} is a "
                    f"{type(op.value).__name__}; put it into one, such as "
                    "{'value': value}"
                )
            params["value"] = typed(self._serde, "value", dict(op.value))
            if op.index is not None:
                params["index"] = op.index
            if op.ttl is not None:
                params["ttl"] = expiry(op.ttl, 60)
            return params
        if isinstance(op, SearchOp):
            params = {
                "op": "search",
                "prefix": op.namespace_prefix,
                "limit": whole("limit", op.limit, "it has a default"),
                "offset": whole("offset", op.offset, "it has a default"),
                "refresh": op.refresh_ttl,
            }
            if op.filter:
                params["filter"] = typed(self._serde, "filter", op.filter)
            if op.query:
                params["query"] = op.query
            return params
        if isinstance(op, ListNamespacesOp):
            params = {
                "op": "namespaces",
                "limit": whole("limit", op.limit, "it has a default"),
                "offset": whole("offset", op.offset, "it has a default"),
            }
            if op.match_conditions:
                params["match"] = [
                    (match.match_type, match.path) for match in op.match_conditions
                ]
            if op.max_depth is not None:
                params["max_depth"] = whole("max_depth", op.max_depth, least=1)
            return params
        raise InvalidArgumentError(f"{type(op).__name__} is no operation of a store")

    def _results(self, ops: list[Op], answers: Any) -> list[Result]:
        if not isinstance(answers, list) or len(answers) != len(ops):
            raise ProtocolError("the server answered another number of operations")
        return [
            self._result(op, answer) for op, answer in zip(ops, answers, strict=True)
        ]

    def _result(self, op: Op, answer: Any) -> Result:
        if isinstance(op, (SearchOp, ListNamespacesOp)):
            # A limit of 0 is the server's default, and in LangGraph it is none.
            answer = [] if answer is None else answer[: op.limit]
        elif answer is None:
            return None
        if isinstance(op, GetOp):
            return Item(
                value=self._serde.loads_typed(tuple(answer["value"])),
                key=answer["key"],
                namespace=tuple(answer["namespace"]),
                created_at=_time(answer["created_at"]),
                updated_at=_time(answer["updated_at"]),
            )
        if isinstance(op, SearchOp):
            return [
                SearchItem(
                    tuple(item["namespace"]),
                    item["key"],
                    self._serde.loads_typed(tuple(item["value"])),
                    _time(item["created_at"]),
                    _time(item["updated_at"]),
                    item.get("score"),
                )
                for item in answer
            ]
        if isinstance(op, ListNamespacesOp):
            return [tuple(namespace) for namespace in answer]
        return None


class AsyncSteleStore(InLoop, SteleStore):
    """A LangGraph store for programs that run in an event loop.

    It is a SteleStore whose blocking methods refuse to be called where an event loop
    runs, since they would stop the loop. From other threads they work.
    """


def _name_wrong_key(ops: list[Op], error: SteleError) -> None:
    """Raise the error of a batch anew if a key is no str: with the key and its type."""
    for op in ops:
        found = None
        if isinstance(op, PutOp):
            found = _no_str(f"the value of {op.key!r}", op.value)
        elif isinstance(op, SearchOp):
            found = _no_str("filter", op.filter)
        if found:
            raise InvalidArgumentError(
                f"{found}; the keys of values in a store are str: "
                "make str of it, or put the dict under a key of its own",
                error.details,
            ) from error


def _no_str(name: str, value: Any) -> str | None:
    """The first key of value that is no str."""
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            return f"{name} has the key {key!r} of type {type(key).__name__}"
    return None


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
