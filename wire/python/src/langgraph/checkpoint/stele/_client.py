"""What savers and stores share: the calls to one server, blocking and asyncio."""

from __future__ import annotations

import asyncio
import operator
import os
import ssl
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from langgraph.checkpoint.stele._aio import AsyncPool
from langgraph.checkpoint.stele._endpoint import Directory, Endpoint, Remote, is_number
from langgraph.checkpoint.stele._sync import MAX_LOSSES, Pool, delay_after
from langgraph.checkpoint.stele._wire import Hello, Lost, Params
from langgraph.checkpoint.stele.errors import (
    InvalidArgumentError,
    SteleConnectionError,
)

DEFAULT_TIMEOUT: Final = 60.0
DEFAULT_CONNECTIONS: Final = 16
DEFAULT_START_TIMEOUT: Final = 15.0
DEFAULT_IDLE_EXIT: Final = 60.0

_MAX_SECONDS: Final = 9e9  # what a server can count

Key = Callable[[Any], Any]


class Client:
    """The calls of this process to one server.

    Threads share a bounded pool of connections, one call at a time on each. Each
    event loop has one connection, many calls at a time. All connect when first used.
    """

    def __init__(
        self, endpoint: Endpoint, *, timeout: float | None, max_connections: int
    ) -> None:
        if timeout is not None and not (
            is_number(timeout) and 0 < timeout <= threading.TIMEOUT_MAX
        ):
            raise InvalidArgumentError(
                f"timeout is {timeout!r}; it is seconds, or None to wait for ever"
            )
        start = endpoint.start_timeout
        if not (is_number(start) and 0 <= start <= threading.TIMEOUT_MAX):
            raise InvalidArgumentError(
                f"the time to connect or to start is {start!r}; it is seconds"
            )
        if not (is_number(max_connections) and max_connections >= 1):
            raise InvalidArgumentError(
                f"max_connections is {max_connections!r}; it is 1 or more"
            )
        self._endpoint = endpoint
        self._timeout = timeout
        self._pool = Pool(endpoint, timeout=timeout, max_connections=max_connections)
        self._begin()
        _clients.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[asyncio.AbstractEventLoop, AsyncPool] = {}
        self._closed = False

    @classmethod
    def from_dir(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool,
        timeout: float | None,
        start_timeout: float,
        max_connections: int,
        idle_exit: float,
        serve_args: Sequence[str],
        binary: str | os.PathLike[str] | None,
    ) -> Client:
        endpoint = Directory(
            path,
            create=create,
            idle_exit=idle_exit,
            start_timeout=start_timeout,
            serve_args=serve_args,
            binary=binary,
        )
        return cls(endpoint, timeout=timeout, max_connections=max_connections)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        token: str | None,
        tls: ssl.SSLContext | None,
        timeout: float | None,
        connect_timeout: float,
        max_connections: int,
    ) -> Client:
        endpoint = Remote(url, token=token, tls=tls, connect_timeout=connect_timeout)
        return cls(endpoint, timeout=timeout, max_connections=max_connections)

    # Blocking.

    def call(self, method: str, params: Params) -> Any:
        """The answer to a call that reads."""
        return self._pool.call(method, params, write=False)

    def write(self, method: str, params: Params) -> Any:
        """The answer to a call that writes, which has its effect once."""
        return self._pool.call(method, params, write=True)

    def hello(self) -> Hello:
        """What the server says of itself; a server is there afterwards."""
        return self._pool.hello()

    def stream(
        self, method: str, params: Params, key: Key
    ) -> Generator[Any, None, None]:
        """The items of a listing.

        If the server is lost in the middle the listing is asked again, and goes on
        after the last item: key tells items apart.
        """
        place = _Place(params, key)
        while True:
            try:
                with closing(self._pool.stream(method, params)) as batches:
                    for batch in batches:
                        for item in place.fresh(batch):
                            yield item
                            if place.full():
                                return
                place.end()
                return
            except Lost as error:
                if place.give_up():
                    raise self._pool.unreachable(error) from error
                time.sleep(delay_after(place.losses))

    def close(self) -> None:
        """Close all connections. What waits on them fails."""
        self._closed = True
        self._pool.close()
        self._close_loops()

    def _close_loops(self) -> None:
        with self._lock:
            pools = list(self._loops.items())
        for loop, pool in pools:
            try:
                loop.call_soon_threadsafe(pool.close)
            except RuntimeError:  # the loop is closed
                pool.close()

    # asyncio.

    def _async(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        pool = self._loops.get(loop)
        if pool is None:
            with self._lock:
                # Whoever calls asyncio.run again and again has a loop each time.
                for other in [other for other in self._loops if other.is_closed()]:
                    self._loops.pop(other).close()
                pool = AsyncPool(loop, self._endpoint, timeout=self._timeout)
                self._loops[loop] = pool
                if self._closed:
                    pool.close()
        return pool

    async def acall(self, method: str, params: Params) -> Any:
        """The answer to a call that reads."""
        return await self._async().call(method, params, write=False)

    async def awrite(self, method: str, params: Params) -> Any:
        """The answer to a call that writes, which has its effect once."""
        return await self._async().call(method, params, write=True)

    async def ahello(self) -> Hello:
        """What the server says of itself; a server is there afterwards."""
        return await self._async().hello()

    async def astream(
        self, method: str, params: Params, key: Key
    ) -> AsyncGenerator[Any, None]:
        """The items of a listing, as stream."""
        pool = self._async()
        place = _Place(params, key)
        while True:
            try:
                async with aclosing(pool.stream(method, params)) as batches:
                    async for batch in batches:
                        for item in place.fresh(batch):
                            yield item
                            if place.full():
                                return
                place.end()
                return
            except Lost as error:
                if place.give_up():
                    raise pool.unreachable(error) from error
                await asyncio.sleep(delay_after(place.losses))

    async def aclose(self) -> None:
        """Close all connections. What waits on them fails."""
        self._async().close()
        self.close()

    def _after_fork(self) -> None:
        closed = self._closed
        self._begin()
        self._closed = closed
        self._pool.after_fork()
        if isinstance(self._endpoint, Directory):
            self._endpoint.after_fork()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "what is connected to a server cannot be pickled or copied deeply; each "
            "process makes its own, with from_dir or from_url"
        )

    def __del__(self) -> None:
        if hasattr(self, "_loops"):
            self._pool.discard()
            self._close_loops()


class _Place:
    """How far a listing has come, so that it can go on after its server was lost."""

    def __init__(self, params: Params, key: Key) -> None:
        self._params = params
        self._key = key
        self._limit = params.get("limit")
        self._last: Any = None
        self._count = 0
        self._looking = False
        self.losses = 0

    def fresh(self, batch: list[Any]) -> Iterator[Any]:
        """The items of a batch that have not been yielded yet."""
        for item in batch:
            if self._looking:
                self._looking = self._key(item) != self._last
                continue
            self._last = self._key(item)
            self._count += 1
            self.losses = 0
            yield item

    def full(self) -> bool:
        return self._limit is not None and self._count >= self._limit

    def end(self) -> None:
        if self._looking:
            raise SteleConnectionError(
                "the server was lost during a listing, and the place where it stopped "
                "has been deleted since; list again"
            )

    def give_up(self) -> bool:
        """Was it lost too often? If not, the next listing goes on from here."""
        if self._count:
            # The items from before have no share in the limit of the next listing.
            self._looking = True
            self._params.pop("limit", None)
        self.losses += 1
        return self.losses > MAX_LOSSES


def expiry(ttl: float, unit: float) -> float:
    """The seconds after which something expires."""
    if not (is_number(ttl) and 0 < ttl * unit < _MAX_SECONDS):
        what = "seconds" if unit == 1 else "minutes"
        raise InvalidArgumentError(
            f"ttl is {ttl!r}; it is {what}, more than 0, or None for ever"
        )
    return ttl * unit


def whole(
    name: str, value: Any, none: str = "None means no limit", least: int = 0
) -> int:
    """A limit, an offset or a depth, as every server takes it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} is {value!r}; it is a whole number, and {none}"
        ) from None
    if number < 0:
        raise InvalidArgumentError(f"{name} is {number}, which is negative; {none}")
    if number < least:
        raise InvalidArgumentError(
            f"{name} is {number}; it is {least} or more, and {none}"
        )
    if number >= 1 << 63:
        raise InvalidArgumentError(f"{name} is {number}, which is too great; {none}")
    return number


class Connected:
    """The life of what makes its calls through a client: a saver or a store."""

    _client: Client

    @property
    def _blocking(self) -> Client:
        """The client, for a call that blocks its thread."""
        return self._client

    def setup(self) -> None:
        """Start or reach the server now rather than with the first call."""
        self._client.hello()

    async def asetup(self) -> None:
        """Start or reach the server now rather than with the first call."""
        await self._client.ahello()

    def close(self) -> None:
        """Close the connections. The server ends when nobody uses it."""
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections. The server ends when nobody uses it."""
        await self._client.aclose()

    def __enter__(self) -> Self:
        self._client.hello()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class InLoop(Connected):
    """What is used in event loops, and refuses to stop one."""

    @property
    def _blocking(self) -> Client:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._client
        raise asyncio.InvalidStateError(
            "a blocking call would stop the event loop that makes it. Await the method "
            "whose name begins with an a, as aget_tuple or aput, or make the call from "
            "another thread"
        )

    async def setup(self) -> None:  # type: ignore[override]
        """Start or reach the server now rather than with the first call."""
        await self.asetup()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
