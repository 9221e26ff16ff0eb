"""The asyncio client: one connection for each event loop, many calls on it.

Calls go out as they come, and each waits for its own answer.
"""

from __future__ import annotations

import asyncio
import collections
import math
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from langgraph.checkpoint.stele import _wire
from langgraph.checkpoint.stele._endpoint import Address, Endpoint
from langgraph.checkpoint.stele._sync import (
    MAX_LOSSES,
    closed_error,
    delay_after,
    tls_failed,
)
from langgraph.checkpoint.stele._wire import Hello, Lost, Params
from langgraph.checkpoint.stele.errors import (
    AuthError,
    ClosingError,
    ProtocolError,
    SteleError,
    SteleTimeoutError,
    from_answer,
    late,
)

T = TypeVar("T")

_FIRST_DELAY: Final = 0.002
_LAST_DELAY: Final = 0.1
_MAX_SLOTS: Final = 64


class Limit:
    """When a call has to be done: everything that it waits for has one deadline."""

    __slots__ = ("began", "deadline", "option", "timeout")

    def __init__(
        self, now: float, timeout: float | None, option: str = "timeout"
    ) -> None:
        self.began = now
        self.timeout = timeout
        self.option = option  # which says how long that is
        self.deadline = None if timeout is None else now + timeout

    def passed(self, what: str) -> SteleTimeoutError:
        """The exception when it has passed; what has {} for the seconds."""
        return late(what.format(f"{self.timeout:g}"), self.option)


class Slot:
    """The numbers of calls that write, of which one is under way at a time."""

    __slots__ = ("index", "left", "number")

    def __init__(self, index: int) -> None:
        self.index = index
        self.number = 0
        # The caller was cancelled, or timed out, and the server is not done yet.
        self.left = False


class Stream:
    """The batches of a listing that have arrived."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._batches: collections.deque[list[Any]] = collections.deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None
        self._ended = False

    def put(self, batch: list[Any]) -> None:
        self._batches.append(batch)
        self._wake()

    def end(self, error: Exception | None) -> None:
        self._ended, self._end = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self, timeout: float | None) -> list[Any] | None:
        """The next batch; None at the end."""
        while not self._batches:
            if self._end is not None:
                raise self._end
            if self._ended:
                return None
            self._waiter = self._loop.create_future()
            try:
                await asyncio.wait_for(self._waiter, timeout)
            except TimeoutError:
                raise late(f"a listing did not go on within {timeout:g} s") from None
        return self._batches.popleft()


class Connection(asyncio.Protocol):
    """One connection, and the calls under way on it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, free: Callable[[Slot], None]
    ) -> None:
        self._loop = loop
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._body: bytearray | None = None
        self._filled = 0
        self._number = 0
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._left: dict[int, Slot | None] = {}
        self._writable: asyncio.Future[None] | None = None
        self._heard = loop.time()
        self.max_frame = _wire.MAX_FRAME
        self.lost: Exception | None = None
        # Nothing was heard for as long as a call may take. A server that is frozen, or
        # a network that is gone, ends no connection: calls to come use another one,
        # and this one ends when nobody waits on it.
        self.silent = False
        self.hello: Hello

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no such

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(Lost(str(exc or "the server closed the connection")))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            if self._body is None and not self._data:
                n = len(data)
                if n > 4 and int.from_bytes(data[:4], "big") == n - 4:
                    self._take(memoryview(data)[4:])
                    return
            self._collect(data)
        except Exception as error:
            self._fail(
                error
                if isinstance(error, ProtocolError)
                else ProtocolError(f"the server's answer cannot be read: {error}")
            )

    def _collect(self, data: bytes) -> None:
        """Put frames together that arrive in pieces, or several at once."""
        view = memoryview(data)
        while view:
            if self._body is None:
                head = self._data + bytes(view[: 4 - len(self._data)])
                view = view[4 - len(self._data) :]
                if len(head) < 4:
                    self._data = head
                    return
                self._data = b""
                n = _wire.length(head)
                if len(view) >= n:
                    self._take(view[:n])
                    view = view[n:]
                    continue
                self._body, self._filled = bytearray(n), 0
            n = min(len(self._body) - self._filled, len(view))
            self._body[self._filled : self._filled + n] = view[:n]
            self._filled += n
            view = view[n:]
            if self._filled == len(self._body):
                body, self._body = self._body, None
                self._take(body)

    def _take(self, body: bytearray | memoryview) -> None:
        message = _wire.decode(body)
        if message[0] == _wire.NOTIFICATION:
            params = message[2][0]
            stream = self._streams.get(params.get("call"))
            items = params.get("items")
            if stream is not None and message[1] == "items" and isinstance(items, list):
                stream.put(items)
            return
        number = message[1]
        error = None if message[2] is None else from_answer(message[2])
        future = self._calls.pop(number, None)
        if future is not None:
            if not future.done():
                if error is None:
                    future.set_result(message[3])
                else:
                    future.set_exception(error)
        elif (stream := self._streams.pop(number, None)) is not None:
            stream.end(Lost(str(error)) if isinstance(error, ClosingError) else error)
        elif number in self._left:
            self._release(self._left.pop(number))
        else:
            raise ProtocolError("the server answered a call that was not made")

    def _fail(self, error: Exception) -> None:
        if self.lost is None:
            self.lost = error
        if self._transport is not None:
            self._transport.abort()
        calls, self._calls = self._calls, {}
        streams, self._streams = self._streams, {}
        left, self._left = self._left, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(error)
        for stream in streams.values():
            stream.end(error)
        for slot in left.values():
            self._release(slot)
        self.resume_writing()

    def _release(self, slot: Slot | None) -> None:
        if slot is not None:
            slot.left = False
            self._free(slot)

    # What the client calls.

    async def call(
        self, method: str, params: Params, limit: Limit, slot: Slot | None
    ) -> Any:
        """The result of a call."""
        if self._writable is not None:
            await self._drained(limit)
        transport = self._open()
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        frame = _wire.request(number, method, params, self.max_frame)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = future
        transport.write(frame)
        timer = (
            None
            if limit.deadline is None
            else self._loop.call_at(limit.deadline, self._expire, future, method, limit)
        )
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if self._calls.pop(number, None) is not None:
                # The answer is to come, and nobody waits for it any more. The slot
                # is not free before.
                self._left[number] = slot
                if slot is not None:
                    slot.left = True
            if self.silent:
                self._loop.call_soon(self._retire)

    def _open(self) -> asyncio.Transport:
        if self.lost is not None:
            raise self.lost
        assert self._transport is not None
        if self._transport.is_closing():  # it has failed, and will say so
            raise Lost("the connection broke")
        return self._transport

    async def _drained(self, limit: Limit) -> None:
        """Wait until the server takes what was sent before."""
        try:
            async with asyncio.timeout_at(limit.deadline):
                while self._writable is not None:
                    await asyncio.shield(self._writable)
        except TimeoutError:
            self._listen(limit.began)
            self._loop.call_soon(self._retire)
            raise limit.passed("a request was not taken within {} s") from None

    def _expire(self, future: asyncio.Future[Any], method: str, limit: Limit) -> None:
        if not future.done():
            self._listen(limit.began)
            future.set_exception(
                limit.passed(f"{_wire.asked(method)} was not answered within {{}} s")
            )

    def _listen(self, since: float) -> None:
        self.silent = self.silent or self._heard <= since

    def greeted(self, hello: Hello) -> None:
        """Take what the server says of itself."""
        self.hello = hello
        self.max_frame = hello.max_frame
        self._heard = -math.inf  # a server that freezes after hello is silent

    def _retire(self) -> None:
        """End a silent connection when the last one has given up waiting on it."""
        if self.silent and not self._calls and not self._streams:
            self._fail(Lost("the server says nothing"))

    async def next_batch(
        self, stream: Stream, timeout: float | None
    ) -> list[Any] | None:
        """The next batch of a stream; None at its end."""
        asked = self._loop.time()
        try:
            return await stream.get(timeout)
        except SteleTimeoutError:
            self._listen(asked)
            raise

    def begin(self, method: str, params: Params) -> tuple[int, Stream]:
        """Ask for a stream."""
        transport = self._open()
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        frame = _wire.request(number, method, params, self.max_frame)
        stream = self._streams[number] = Stream(self._loop)
        transport.write(frame)
        return number, stream

    def more(self, number: int) -> None:
        """Let the server send another batch of a stream."""
        self._notify("more", {"call": number, "batches": 1})

    def cancel(self, number: int) -> None:
        """End a stream early."""
        if self._streams.pop(number, None) is not None:
            self._left[number] = None
            self._notify("cancel", {"call": number})
            if self.silent:
                self._loop.call_soon(self._retire)

    def _notify(self, method: str, params: Params) -> None:
        if self.lost is None and self._transport is not None:
            self._transport.write(_wire.notification(method, params))

    @property
    def usable(self) -> bool:
        return self.lost is None and not self.silent

    def close(self) -> None:
        self._fail(Lost("closed"))

    def discard(self) -> None:
        """End the connection of a loop that was closed, which can end none itself."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            if sock is not None:  # uvloop has closed it with the loop
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._transport = None


def _heard(opening: asyncio.Task[Connection]) -> None:
    """Take the failure of what nobody waits for any more: asyncio would print it."""
    if not opening.cancelled():
        opening.exception()


class AsyncPool:
    """The connection of one event loop to a server, and the loop's slots."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        *,
        timeout: float | None,
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._timeout = timeout
        self._connection: Connection | None = None  # for calls to come
        # Also those that are being made, and those that calls still wait on.
        self._connections: list[Connection] = []
        self._opening: asyncio.Task[Connection] | None = None
        self._closed = False
        self._id = os.urandom(16)
        self._made = 0
        self._limit = _MAX_SLOTS
        self._free: list[Slot] = []
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    async def call(self, method: str, params: Params, *, write: bool) -> Any:
        """The result of a call, which is asked again if the server was lost."""
        limit = Limit(self._loop.time(), self._timeout)
        if not write:
            return await self._call(method, params, limit, None)
        if self._connection is None:
            await self._connected(limit)  # it says how many slots there are
        slot = self._free.pop() if self._free else await self._take(limit)
        try:
            slot.number += 1
            params["call"] = (self._id, slot.index, slot.number)
            return await self._call(method, params, limit, slot)
        finally:
            if not slot.left:
                self._give(slot)

    async def _call(
        self, method: str, params: Params, limit: Limit, slot: Slot | None
    ) -> Any:
        losses = 0
        while True:
            connection = self._connection
            if connection is None or not connection.usable:
                connection = await self._connected(limit)
            try:
                return await connection.call(method, params, limit, slot)
            except (Lost, ClosingError) as error:
                self._drop(connection, error)
                losses += 1
                if losses > MAX_LOSSES:
                    raise self._endpoint.unreachable(error) from error
                if losses > 1:
                    await asyncio.sleep(delay_after(losses))
                if slot is not None:
                    params["again"] = True
            except ProtocolError as error:
                self._drop(connection, error)
                raise

    async def stream(
        self, method: str, params: Params
    ) -> AsyncGenerator[list[Any], None]:
        """The batches of a listing. Raises Lost if the connection breaks."""
        limit = Limit(self._loop.time(), self._timeout)
        connection = await self._connected(limit)
        number, stream = connection.begin(method, params)
        try:
            while True:
                items = await connection.next_batch(stream, self._timeout)
                if items is None:
                    return
                yield items
                connection.more(number)
        finally:
            connection.cancel(number)

    async def hello(self) -> Hello:
        """What the server says of itself."""
        # To start a server has a limit of its own.
        return (await self._connected(Limit(self._loop.time(), None))).hello

    def unreachable(self, cause: Exception | None) -> Exception:
        return self._endpoint.unreachable(cause)

    def close(self) -> None:
        """Close the connection. Calls under way fail; later ones do, too."""
        self._closed = True
        self._connection = None
        connections, self._connections = self._connections, []
        for connection in connections:
            if self._loop.is_closed():
                connection.discard()
            else:
                connection.close()

    async def _take(self, limit: Limit) -> Slot:
        while not self._free:
            if self._made < self._limit:
                self._made += 1
                return Slot(self._made - 1)
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(waiter)
            try:
                async with asyncio.timeout_at(limit.deadline):
                    await waiter
            except BaseException as error:
                # Woken and cancelled at once: the next one may go.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                if isinstance(error, TimeoutError):
                    raise limit.passed(
                        f"{self._limit} calls that write were not answered within "
                        "{} s"
                    ) from None
                raise
        return self._free.pop()

    def _give(self, slot: Slot) -> None:
        self._free.append(slot)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _drop(self, connection: Connection, error: Exception) -> None:
        if self._connection is connection:
            self._connection = None
        if connection.lost is None:
            connection.lost = error
            connection.close()

    async def _connected(self, limit: Limit) -> Connection:
        connection = self._connection
        if connection is not None and connection.usable:
            return connection
        # Calls that find no connection wait for one attempt. It goes on if the one
        # that began it is cancelled.
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._open())
            self._opening.add_done_callback(_heard)
        try:
            async with asyncio.timeout_at(limit.deadline):
                return await asyncio.shield(self._opening)
        except SteleTimeoutError:
            raise
        except TimeoutError:
            raise limit.passed("no server was reached within {} s") from None

    async def _open(self) -> Connection:
        deadline = time.monotonic() + self._endpoint.start_timeout
        delay = _FIRST_DELAY
        cause: Exception | None = None
        while True:
            if self._closed:
                raise closed_error()
            # Files are read, and processes waited for, outside the loop's thread.
            address = await self._outside(self._endpoint.address)
            if address is not None:
                try:
                    connection = await self._dial(address, deadline)
                except ssl.SSLError as error:
                    raise tls_failed(address, error) from error
                except (OSError, Lost, ClosingError) as error:
                    # A later attempt is cut off by the deadline: what the earlier
                    # ones met says more.
                    if isinstance(error, TimeoutError) and cause is not None:
                        raise self._endpoint.unreachable(cause) from cause
                    if isinstance(error, SteleError) and not isinstance(
                        error, ClosingError
                    ):
                        raise
                    cause = error
                else:
                    if self._closed:
                        connection.close()
                        raise closed_error()
                    self._connection = connection
                    self._limit = min(self._limit, connection.hello.call_slots)
                    return connection
            if time.monotonic() > deadline:
                raise self._endpoint.unreachable(cause) from cause
            await self._outside(self._endpoint.start, deadline, deadline)
            if (
                address is not None
                or await self._outside(self._endpoint.address) is None
            ):
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_DELAY)

    async def _outside(self, function: Callable[..., T], *args: Any) -> T:
        return await self._loop.run_in_executor(None, function, *args)

    async def _dial(self, address: Address, deadline: float) -> Connection:
        remaining = max(round(deadline - time.monotonic(), 2), 0.05)
        connection = Connection(self._loop, self._give)
        self._connections = [c for c in self._connections if c.lost is None]
        self._connections.append(connection)
        try:
            try:
                await asyncio.wait_for(self._transport(address, connection), remaining)
            except TimeoutError as error:
                what = f"{address} took no connection within {remaining:g} s"
                raise late(what, self._endpoint.start_option) from error
            hello = _wire.hello(address, in_turn=False)
            option = self._endpoint.start_option
            limit = Limit(self._loop.time(), remaining, option)
            try:
                answer = await connection.call("hello", hello, limit, None)
            except AuthError as error:
                if not address.proves:
                    raise
                raise _wire.stranger(address) from error
            connection.greeted(_wire.greeted(address, hello, answer))
            self._endpoint.greeted(connection.hello)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _transport(self, address: Address, connection: Connection) -> None:
        if address.kind == "unix":
            await self._loop.create_unix_connection(lambda: connection, address.path)
        else:
            await self._loop.create_connection(
                lambda: connection,
                address.host,
                address.port,
                ssl=self._endpoint.tls if address.kind == "tls" else None,
            )
