"""The blocking client: a bounded pool of connections, one call at a time on each.

A thread that calls takes a connection, writes the request, and reads the answer. No
other thread takes part, so a call costs two system calls and no switch.
"""

from __future__ import annotations

import collections
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

from langgraph.checkpoint.stele import _wire
from langgraph.checkpoint.stele._endpoint import Address, Endpoint
from langgraph.checkpoint.stele._wire import Hello, Lost, Params
from langgraph.checkpoint.stele.errors import (
    AuthError,
    ClosingError,
    PoolTimeoutError,
    ProtocolError,
    SteleConnectionError,
    SteleError,
    SteleTimeoutError,
    from_answer,
    late,
)

_RECV: Final = 64 << 10
_SEND: Final = 256 << 10
_FIRST_DELAY: Final = 0.002
_LAST_DELAY: Final = 0.1

# So often a call is asked again. A call that ends its server each time must not have
# servers started for ever.
MAX_LOSSES: Final = 10


def delay_after(losses: int) -> float:
    """Seconds to wait before a call that was lost so often is asked again."""
    return min(_FIRST_DELAY * 2.0**losses, 1.0)


class Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        self._sock = sock
        self._timeout = timeout
        self._option = "timeout"  # which says how long that is
        self._number = 0
        self._polled = True
        # When the call under way has to be done, and whether the socket has less than
        # the whole time of a call.
        self._deadline: float | None = None
        self._narrowed = False
        # What a call that was sent at once has left of the socket's limit, at least.
        self._least = 0.9 * (timeout or 0)
        self._rest = b""
        self.max_frame = _wire.MAX_FRAME
        self.hello: Hello

    @classmethod
    def open(
        cls,
        address: Address,
        endpoint: Endpoint,
        timeout: float | None,
        deadline: float,
    ) -> Connection:
        """Connect and say hello. An OSError or Lost means: not there, or no more."""
        remaining = max(round(deadline - time.monotonic(), 2), 0.05)
        if address.kind == "unix":
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(remaining)
                sock.connect(address.path)
            except BaseException:
                sock.close()
                raise
        else:
            sock = socket.create_connection((address.host, address.port), remaining)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if address.kind == "tls" and endpoint.tls is not None:
                    sock = endpoint.tls.wrap_socket(sock, server_hostname=address.host)
            except BaseException:
                sock.close()
                raise
        self = cls(sock, remaining)
        self._option = endpoint.start_option
        by = time.monotonic() + remaining
        try:
            hello = _wire.hello(address, in_turn=True)
            try:
                self.hello = _wire.greeted(
                    address, hello, self.call("hello", hello, by)
                )
            except AuthError as error:
                if not address.proves:
                    raise
                raise _wire.stranger(address) from error
            self.max_frame = self.hello.max_frame
            self._timeout, self._option = timeout, "timeout"
            self._polled = address.kind == "tls" or sys.platform == "win32"
            self._wait_at_most(timeout)
        except BaseException:
            self.close()
            raise
        return self

    def _wait_at_most(self, timeout: float | None) -> None:
        self._least = 0.9 * (timeout or 0)
        # A time limit of the socket itself costs no poll before each read.
        if timeout is None:
            self._sock.settimeout(None)
        elif self._polled:
            self._sock.settimeout(max(timeout, 0.001))
        else:
            seconds = max(timeout, 0.001)
            limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._sock.settimeout(None)

    def call_by(self, deadline: float | None, method: str, params: Params) -> Any:
        """As call, for one that has waited before: it has less than its whole time."""
        if deadline is None:
            return self.call(method, params, None)
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._late(method)
        try:
            with suppress(OSError):  # another thread has shut it; the call will say so
                self._wait_at_most(left)
            return self.call(method, params, deadline)
        finally:
            with suppress(OSError):
                self._wait_at_most(self._timeout)

    def _late(self, method: str) -> SteleTimeoutError:
        what = f"{_wire.asked(method)} was not answered within {self._timeout:g} s"
        return late(what, self._option)

    def call(self, method: str, params: Params, deadline: float | None) -> Any:
        """The result of a call.

        After Lost, a timeout or a ProtocolError the connection is of no more use.
        """
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        frame = _wire.request(number, method, params, self.max_frame)
        self._deadline = deadline
        try:
            if len(frame) <= _SEND:
                self._sock.sendall(frame)
            else:
                self._send_parts(memoryview(frame))
            if deadline is not None and deadline - time.monotonic() < self._least:
                self._narrow()  # the request has waited, and the answer has the rest
            message = self._receive()
            while message[0] == _wire.NOTIFICATION:  # one that is not for us
                self._narrow()
                message = self._receive()
            if self._narrowed:
                self._narrowed = False
                self._wait_at_most(self._timeout)
        except (TimeoutError, BlockingIOError):
            raise self._late(method) from None
        except OSError as error:
            raise Lost(str(error)) from error
        if message[1] != number:
            raise ProtocolError("the server answered a call that was not made")
        if message[2] is not None:
            raise from_answer(message[2])
        return message[3]

    def _narrow(self) -> None:
        """Leave the next read or write what is left of the call's time.

        A limit of the socket begins anew with each: a server that sends, or takes, a
        little now and then would never meet it.
        """
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._narrowed = True
            self._wait_at_most(left)

    def _send_parts(self, frame: memoryview) -> None:
        for at in range(0, len(frame), _SEND):
            self._narrow()
            self._sock.sendall(frame[at : at + _SEND])

    def begin(self, method: str, params: Params) -> int:
        """Ask for a stream. Its number is what next_batch and cancel are about."""
        self._deadline = None
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        self._send(_wire.request(number, method, params, self.max_frame))
        return number

    def next_batch(self, number: int) -> list[Any] | None:
        """The next batch of a stream; None at its end."""
        while True:
            try:
                message = self._receive()
            except (TimeoutError, BlockingIOError):
                what = f"a listing did not go on within {self._timeout:g} s"
                raise late(what) from None
            except OSError as error:
                raise Lost(str(error)) from error
            if message[0] == _wire.RESPONSE:
                break
            params = message[2][0]
            if message[1] == "items" and params.get("call") == number:
                items = params.get("items")
                if not isinstance(items, list):
                    raise ProtocolError("the server sent a batch of another form")
                return items
        if message[1] != number:
            raise ProtocolError("the server answered a call that was not made")
        if message[2] is not None:
            raise from_answer(message[2])
        return None

    def more(self, number: int) -> None:
        """Let the server send another batch."""
        self._send(_wire.notification("more", {"call": number, "batches": 1}))

    def _send(self, frame: bytes) -> None:
        try:
            self._sock.sendall(frame)
        except (TimeoutError, BlockingIOError):
            what = f"a request was not taken within {self._timeout:g} s"
            raise late(what) from None
        except OSError as error:
            raise Lost(str(error)) from error

    def _receive(self) -> _wire.Message:
        data = self._rest or self._sock.recv(_RECV)
        while len(data) < 4:
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._narrow()
            more = self._sock.recv(_RECV)
            if not more:
                raise ConnectionResetError("the server closed the connection")
            data += more
        end = 4 + _wire.length(data[:4])
        have = len(data)
        if have == end:
            self._rest = b""
            return _wire.decode(memoryview(data)[4:])
        if have > end:
            self._rest = data[end:]
            return _wire.decode(memoryview(data)[4:end])
        self._rest = b""
        body = bytearray(end - 4)
        view = memoryview(body)
        view[: have - 4] = data[4:]
        filled = have - 4
        while filled < len(body):
            self._narrow()
            n = self._sock.recv_into(view[filled:])
            if n == 0:
                raise ConnectionResetError("the server closed the connection")
            filled += n
        return _wire.decode(body)

    def shut(self) -> None:
        """Close the connection under a thread that may be waiting on it."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        """Give up this process's end. After a fork the other one's stays as it is."""
        with suppress(OSError):
            self._sock.close()


class Slot:
    """A place of the pool: a connection, and the numbers of the calls that write.

    The server remembers the last call of each slot, so the slot outlives its
    connections.
    """

    __slots__ = ("connection", "generation", "index", "number")

    def __init__(self, index: int, generation: bytes) -> None:
        self.index = index
        self.generation = generation
        self.number = 0
        self.connection: Connection | None = None


class Pool:
    """The connections of a process to one server."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float | None, max_connections: int
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._max = max_connections
        self._begin()

    def _begin(self) -> None:
        self.id = os.urandom(16)
        self._free: collections.deque[Slot] = collections.deque()
        self._made = 0
        self._limit = self._max
        self._waiting = 0
        self._changed = threading.Condition()
        self._slots: list[Slot] = []
        self._closed = False

    def after_fork(self) -> None:
        """Begin anew in the child: the connections are the parent's."""
        slots, closed = self._slots, self._closed
        self._begin()
        self._closed = closed
        for slot in slots:
            if slot.connection is not None:
                slot.connection.close()  # of this process's descriptor alone
                slot.connection = None

    def close(self) -> None:
        """Close all connections. Calls under way fail; later ones do, too."""
        with self._changed:
            self._closed = True
            for slot in self._slots:
                if slot.connection is not None:
                    slot.connection.shut()
            self._changed.notify_all()

    def discard(self) -> None:
        """Close what is open; nobody can use the pool any more."""
        for slot in self._slots:
            self._drop(slot)

    def call(self, method: str, params: Params, *, write: bool) -> Any:
        """The result of a call, which is asked again if the server was lost."""
        deadline = self._deadline()
        try:
            slot, waited = self._free.pop(), False
        except IndexError:
            slot, waited = self._take(deadline), True
        try:
            if write:
                slot.number += 1
                params["call"] = (self.id, slot.index, slot.number)
            connection = slot.connection
            if connection is not None:
                # At most one of these two ends the connection: the usual case is
                # neither, and costs nothing.
                try:
                    if waited:
                        return connection.call_by(deadline, method, params)
                    return connection.call(method, params, deadline)
                except (Lost, ClosingError) as error:
                    self._drop(slot)
                    lost: Exception = error
                except SteleError as error:
                    if isinstance(error, (SteleTimeoutError, ProtocolError)):
                        self._drop(slot)
                    raise
                except BaseException:
                    self._drop(slot)
                    raise
                if write:
                    params["again"] = True
                return self._call_again(slot, deadline, method, params, write, lost)
            return self._call_again(slot, deadline, method, params, write, None)
        finally:
            self._give(slot)

    def _call_again(
        self,
        slot: Slot,
        deadline: float | None,
        method: str,
        params: Params,
        write: bool,
        lost: Exception | None,
    ) -> Any:
        losses = 0 if lost is None else 1
        while True:
            try:
                connection = self._connected(slot, deadline)
                return connection.call_by(deadline, method, params)
            except (Lost, ClosingError) as error:
                self._drop(slot)
                losses += 1
                if losses > MAX_LOSSES:
                    raise self._endpoint.unreachable(error) from error
                time.sleep(delay_after(losses))
                if write:
                    params["again"] = True
            except SteleError as error:
                if isinstance(error, (SteleTimeoutError, ProtocolError)):
                    self._drop(slot)
                raise
            except BaseException:
                self._drop(slot)
                raise

    def stream(self, method: str, params: Params) -> Generator[list[Any], None, None]:
        """The batches of a listing. Raises Lost if the connection breaks.

        The listing has its connection until it ends or the generator is closed.
        """
        deadline = self._deadline()
        slot = self._take(deadline)
        done = False
        try:
            connection = self._connected(slot, deadline)
            number = connection.begin(method, params)
            while True:
                items = connection.next_batch(number)
                if items is None:
                    done = True
                    return
                yield items
                connection.more(number)
        except ClosingError as error:
            raise Lost(str(error)) from error
        except SteleError as error:
            done = not isinstance(error, (SteleTimeoutError, ProtocolError))
            raise
        finally:
            # Whoever stops early ends the call by ending the connection.
            if not done:
                self._drop(slot)
            self._give(slot)

    def hello(self) -> Hello:
        """What the server says of itself."""
        slot = self._take(self._deadline())
        try:
            # To start a server has a limit of its own.
            return self._connected(slot, None).hello
        finally:
            self._give(slot)

    def unreachable(self, cause: Exception | None) -> Exception:
        return self._endpoint.unreachable(cause)

    def _deadline(self) -> float | None:
        """When a call that begins now has to be done."""
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _take(self, deadline: float | None) -> Slot:
        try:
            return self._free.pop()  # the last used one: others may go idle
        except IndexError:
            pass
        with self._changed:
            if self._made < self._limit:
                self._made += 1
                slot = Slot(self._made - 1, self.id)
                self._slots.append(slot)
                return slot
            self._waiting += 1
            try:
                while True:
                    try:
                        return self._free.pop()
                    except IndexError:
                        left = None if deadline is None else deadline - time.monotonic()
                        if left is not None and left <= 0:
                            raise PoolTimeoutError(
                                f"all {self._limit} connections were in use for "
                                f"{self._timeout:g} s"
                            ) from None
                        self._changed.wait(left)
            finally:
                self._waiting -= 1

    def _give(self, slot: Slot) -> None:
        if slot.generation is not self.id:  # taken before a fork
            self._drop(slot)
            return
        self._free.append(slot)
        if self._waiting:
            with self._changed:
                self._changed.notify()

    def _drop(self, slot: Slot) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            connection.close()

    def _connected(self, slot: Slot, limit: float | None) -> Connection:
        """The connection of a slot; limit is when the call has to be done."""
        if slot.connection is not None:
            return slot.connection
        deadline = time.monotonic() + self._endpoint.start_timeout
        until = deadline if limit is None else min(deadline, limit)
        delay = _FIRST_DELAY
        cause: Exception | None = None
        while True:
            if self._closed:
                raise closed_error()
            address = self._endpoint.address()
            if address is not None:
                try:
                    connection = Connection.open(
                        address, self._endpoint, self._timeout, until
                    )
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
                    slot.connection = connection
                    try:
                        self._endpoint.greeted(connection.hello)
                    except SteleError:
                        self._drop(slot)
                        raise
                    self._bound(connection.hello)
                    if self._closed:  # by now, and close did not see the connection
                        self._drop(slot)
                        raise closed_error()
                    return connection
            if time.monotonic() > deadline:
                raise self._endpoint.unreachable(cause) from cause
            if time.monotonic() > until:
                what = f"no server was reached within {self._timeout:g} s"
                raise late(what) from cause
            self._endpoint.start(deadline, until)
            if address is not None or self._endpoint.address() is None:
                time.sleep(delay)
                delay = min(delay * 2, _LAST_DELAY)

    def _bound(self, hello: Hello) -> None:
        """Use no more slots than the server remembers."""
        if self._limit > hello.call_slots:
            with self._changed:
                self._limit = min(self._limit, hello.call_slots)


def tls_failed(address: Address, error: ssl.SSLError) -> Exception:
    return SteleConnectionError(
        f"TLS with {address} failed ({error}); pass tls= a context that trusts the "
        "server's certificate"
    )


def closed_error() -> Exception:
    return SteleError("this saver or store is closed; make a new one")
