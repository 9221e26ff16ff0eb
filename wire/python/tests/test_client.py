"""The client against a server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import ormsgpack
import pytest
import uvloop
from fake import HELLO, Peer, Server, frame
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph.checkpoint.stele import (
    AsyncSteleSaver,
    SteleSaver,
    _aio,
    _sync,
    _wire,
    errors,
)
from langgraph.store.stele import SteleStore

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Any]:
    made: list[Server] = []

    def make(handle: Any) -> Server:
        server = Server(tmp_path / f"s{len(made)}", handle)
        made.append(server)
        return server

    yield make
    for server in made:
        server.stop()


def a_tuple(id: str, **more: Any) -> dict[str, Any]:
    return {
        "thread": "t",
        "ns": "",
        "id": id,
        "parent": None,
        "v": 4,
        "ts": "2026-01-01T00:00:00+00:00",
        "values": {},
        "versions": {},
        "seen": {},
        "updated": None,
        "metadata": ["msgpack", ormsgpack.packb({"step": 1})],
        "writes": [],
        **more,
    }


def nothing(peer: Peer, number: int, method: str, params: Any) -> None:
    peer.answer(number, {"tuple": None})


def test_a_lost_write_is_asked_again_with_its_number(servers: Any) -> None:
    seen: list[Any] = []

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        seen.append((params["call"], params.get("again")))
        if len(seen) in (2, 3):  # after the call, and before its answer
            peer.close()
            return
        peer.answer(number, {})

    with SteleSaver.from_url(servers(handle).url) as saver:
        for _ in range(3):
            saver.delete_thread("t")
    calls, again = [call for call, _ in seen], [again for _, again in seen]
    assert calls[1] == calls[2] == calls[3], "a repeated call keeps its number"
    assert again == [None, None, True, True, None]
    client, slot, number = calls[0]
    assert len(client) == 16
    assert [calls[i] for i in (0, 1, 4)] == [
        [client, slot, number],
        [client, slot, number + 1],
        [client, slot, number + 2],
    ]


async def test_a_lost_write_is_asked_again_by_asyncio(servers: Any) -> None:
    seen: list[Any] = []

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        seen.append((params["call"], params.get("again")))
        if len(seen) == 2:
            peer.close()
        else:
            peer.answer(number, {})

    async with AsyncSteleSaver.from_url(servers(handle).url) as saver:
        await saver.adelete_thread("t")
        await saver.adelete_thread("t")
    assert seen[1][0] == seen[2][0]
    assert [again for _, again in seen] == [None, None, True]


def test_closing_is_asked_again(servers: Any) -> None:
    count = 0

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            peer.error(number, "closing")
        else:
            peer.answer(number, {"tuple": None})

    server = servers(handle)
    with SteleSaver.from_url(server.url) as saver:
        assert saver.get_tuple(CONFIG) is None
    assert (count, server.connections) == (2, 2)


async def test_a_connection_that_breaks_under_many_calls_is_no_noise(
    servers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))
    async with AsyncSteleSaver.from_url(server.url) as saver:
        await saver.adelete_thread("t")
        server.peers[0].close()
        await asyncio.gather(*(saver.adelete_thread("t") for _ in range(30)))
    assert caplog.messages == []


async def test_closing_is_asked_again_by_asyncio(servers: Any) -> None:
    count = 0

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            peer.error(number, "closing")
        else:
            peer.answer(number, {"tuple": None})

    async with AsyncSteleSaver.from_url(servers(handle).url) as saver:
        assert await saver.aget_tuple(CONFIG) is None
    assert count == 2


@pytest.mark.parametrize("size", [0, 10, 70_000, 700_000])
async def test_answers_in_pieces(servers: Any, size: int) -> None:
    data = os.urandom(size)

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        whole = frame([2, "unknown", [{}]]) + frame(
            [1, number, None, {"tuple": a_tuple("1", values={"a": ["bytes", data]})}]
        )
        for cut in (1, 3, 6, 100, 70_000):
            peer.sock.sendall(whole[:cut])
            whole = whole[cut:]
        peer.sock.sendall(whole)

    server = servers(handle)
    with SteleSaver.from_url(server.url) as saver:
        for _ in range(2):
            found = saver.get_tuple(CONFIG)
            assert found is not None and found.checkpoint["channel_values"]["a"] == data
    async with AsyncSteleSaver.from_url(server.url) as saver:
        for found in await asyncio.gather(*(saver.aget_tuple(CONFIG) for _ in "12")):
            assert found is not None and found.checkpoint["channel_values"]["a"] == data


def test_random_answers_are_errors(servers: Any) -> None:
    seed = int(os.environ.get("STELE_SEED") or random.randrange(1 << 32))
    rng = random.Random(seed)
    whole = ormsgpack.packb([1, 1, None, {"tuple": a_tuple("1")}])
    for _ in range(2000):
        body = bytearray(whole)
        for _ in range(rng.randrange(4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        del body[rng.randrange(len(body) + 1) :]
        try:
            message = _wire.decode(body)
        except errors.ProtocolError:
            continue
        except Exception as error:
            pytest.fail(f"{error!r}; STELE_SEED={seed}")
        assert message[0] in (1, 2), f"STELE_SEED={seed}"
    with pytest.raises(errors.ProtocolError):
        _wire.length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x16"]
)
def test_an_address_of_something_else(servers: Any, said: bytes) -> None:
    """A server of HTTP, or of TLS where tcp: was written, is told from a stele."""
    begun = repr(said[:4].decode())
    server = servers(nothing)
    server.hello = lambda peer, *_: peer.sock.sendall(said)
    saver = SteleSaver.from_url(server.url)
    with pytest.raises(errors.ProtocolError) as refused:
        saver.get_tuple(CONFIG)
    told = f"a server that is not stele answers: what it sends begins with {begun}"
    assert told in str(refused.value)
    assert "listens at the address" in str(refused.value)


@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff\xff", frame([1, 77, None, {}]), frame([7]), frame("x")]
)
async def test_a_wrong_answer_is_a_protocol_error(servers: Any, raw: bytes) -> None:
    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        peer.sock.sendall(raw)

    server = servers(handle)
    with SteleSaver.from_url(server.url) as saver:
        with pytest.raises(errors.ProtocolError):
            saver.get_tuple(CONFIG)
        server.handle = nothing
        assert saver.get_tuple(CONFIG) is None, "the next call has a new connection"
    server.handle = handle
    async with AsyncSteleSaver.from_url(server.url) as saver:
        with pytest.raises(errors.ProtocolError):
            await saver.aget_tuple(CONFIG)
        server.handle = nothing
        assert await saver.aget_tuple(CONFIG) is None


def listing(batches: int) -> Any:
    """A handler that streams, and gives no more than the client has asked for."""
    credit = threading.Semaphore(4)

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        def send() -> None:
            for i in range(batches):
                if not credit.acquire(timeout=30):
                    return  # the client asks for no more
                items = [a_tuple(str(i * 2)), a_tuple(str(i * 2 + 1))]
                try:
                    peer.notify("items", {"call": number, "items": items})
                except OSError:
                    return  # nobody listens any more
            peer.answer(number, {"count": batches * 2})

        threading.Thread(target=send, daemon=True).start()

    def notified(peer: Peer, method: str, params: Any) -> None:
        if method == "more":
            for _ in range(params["batches"]):
                credit.release()

    return handle, notified


async def test_a_listing_asks_for_more(servers: Any) -> None:
    handle, notified = listing(20)
    server = servers(handle)
    server.notified = notified
    want = [str(i) for i in range(40)]
    with SteleSaver.from_url(server.url) as saver:
        assert [t.checkpoint["id"] for t in saver.list(CONFIG)] == want
    handle, server.notified = listing(20)
    server.handle = handle
    async with AsyncSteleSaver.from_url(server.url) as saver:
        assert [t.checkpoint["id"] async for t in saver.alist(CONFIG)] == want


async def test_a_listing_that_is_left_gives_its_connection_back(servers: Any) -> None:
    handle, notified = listing(20)
    server = servers(handle)
    server.notified = notified
    with SteleSaver.from_url(server.url, max_connections=1, timeout=20) as saver:
        items = saver.list(CONFIG)
        assert next(items).checkpoint["id"] == "0"
        items.close()  # type: ignore[attr-defined]
        server.handle = nothing
        assert saver.get_tuple(CONFIG) is None
    handle, server.notified = listing(20)
    server.handle = handle
    async with AsyncSteleSaver.from_url(server.url) as saver:
        async for found in saver.alist(CONFIG, limit=1):
            assert found.checkpoint["id"] == "0"
        server.handle = nothing
        assert await saver.aget_tuple(CONFIG) is None
        with server.lock:
            assert any(m[0] == 2 and m[1] == "cancel" for m in server.messages)


async def test_a_listing_goes_on_where_it_was_lost(servers: Any) -> None:
    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        again = len(server.requests("list")) % 2 == 0
        ids = ["9", "8", "7", "6"]
        if again:  # somebody has put another one, and the limit does not count it
            ids = ["91", *ids, "5"]
            assert "limit" not in params
        else:
            assert params["limit"] == 5
            ids = ids[:2]
        for id in ids:
            peer.notify("items", {"call": number, "items": [a_tuple(id)]})
        if again:
            peer.answer(number, {"count": len(ids)})
        else:
            peer.close()

    server = servers(handle)
    want = ["9", "8", "7", "6", "5"]
    with SteleSaver.from_url(server.url) as saver:
        assert [t.checkpoint["id"] for t in saver.list(CONFIG, limit=5)] == want
    async with AsyncSteleSaver.from_url(server.url) as saver:
        ids = [t.checkpoint["id"] async for t in saver.alist(CONFIG, limit=5)]
        assert ids == want


def test_a_listing_whose_place_is_gone_is_an_error(servers: Any) -> None:
    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        if len(server.requests("list")) == 1:
            peer.notify("items", {"call": number, "items": [a_tuple("9")]})
            peer.close()
            return
        peer.notify("items", {"call": number, "items": [a_tuple("8")]})
        peer.answer(number, {"count": 1})

    server = servers(handle)
    with (
        SteleSaver.from_url(server.url) as saver,
        pytest.raises(errors.SteleConnectionError, match="list again"),
    ):
        list(saver.list(CONFIG))


async def test_timeouts(servers: Any) -> None:
    server = servers(lambda *_: None)
    with SteleSaver.from_url(server.url, timeout=1) as saver:
        with pytest.raises(TimeoutError, match="get was not answered"):
            saver.get_tuple(CONFIG)
        with pytest.raises(errors.SteleTimeoutError):
            list(saver.list(CONFIG))
        server.handle = nothing
        assert saver.get_tuple(CONFIG) is None
    server.handle = lambda *_: None
    async with AsyncSteleSaver.from_url(server.url, timeout=1) as saver:
        with pytest.raises(TimeoutError, match="get was not answered"):
            await saver.aget_tuple(CONFIG)
        with pytest.raises(errors.SteleTimeoutError):
            [t async for t in saver.alist(CONFIG)]
        server.handle = nothing
        assert await saver.aget_tuple(CONFIG) is None


async def test_a_server_that_takes_nothing_is_no_reason_to_hang(servers: Any) -> None:
    """A server that is frozen, in the middle of calls that fill what it may read."""
    frozen = threading.Event()
    server = servers(lambda *_: frozen.wait(60))
    server.hello = lambda peer, number, *_: peer.answer(
        number, {**HELLO, "max_frame": 64 << 20}
    )
    large = "x" * (32 << 20)
    async with AsyncSteleSaver.from_url(server.url, timeout=1) as saver:
        calls = [saver.adelete_thread(name) for name in ("a", large, "b", "c")]
        async with asyncio.timeout(60):
            failed = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in failed] == [errors.SteleTimeoutError] * 4
        server.handle = lambda peer, number, *_: peer.answer(number, {})
        await saver.adelete_thread("d")  # on another connection
    frozen.set()


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time a test lets pass."""

    passed = 0.0

    def time(self) -> float:
        return super().time() + self.passed


def run_with_clock(test: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Clock)
        await test(loop)

    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(run())


def test_the_wait_to_send_is_part_of_a_calls_time() -> None:
    async def calls(loop: Clock) -> None:
        transport = Mock(asyncio.Transport)
        transport.is_closing.return_value = False
        connection = _aio.Connection(loop, lambda slot: None)
        connection.connection_made(transport)
        connection.pause_writing()
        limit = _aio.Limit(loop.time(), 3600)
        call = asyncio.create_task(connection.call("get", {}, limit, None))
        await asyncio.sleep(0)
        loop.passed = 2000
        connection.resume_writing()
        async with asyncio.timeout(60):
            while not transport.write.called:
                await asyncio.sleep(0)
        assert not call.done()
        loop.passed = 4000
        await asyncio.wait([call], timeout=60)
        assert call.done(), "more than its time has passed"
        with pytest.raises(errors.SteleTimeoutError, match="within 3600 s"):
            call.result()

    run_with_clock(calls)


def test_the_wait_for_a_slot_is_part_of_a_calls_time(servers: Any) -> None:
    held: list[tuple[Peer, int]] = []
    server = servers(lambda peer, number, *_: held.append((peer, number)))
    server.hello = lambda peer, number, *_: peer.answer(
        number, {**HELLO, "call_slots": 1}
    )

    async def calls(loop: Clock) -> None:
        saver = AsyncSteleSaver.from_url(server.url, timeout=3600)
        async with saver:
            first = asyncio.create_task(saver.adelete_thread("a"))
            second = asyncio.create_task(saver.adelete_thread("b"))
            await until(lambda: bool(held))
            loop.passed = 2000
            held[0][0].answer(held[0][1], {})
            await first
            await until(lambda: len(held) == 2)
            assert not second.done()
            loop.passed = 4000
            await asyncio.wait([second], timeout=60)
            assert second.done(), "more than its time has passed"
            with pytest.raises(errors.SteleTimeoutError, match="within 3600 s"):
                second.result()

    run_with_clock(calls)


def test_the_wait_for_a_connection_is_part_of_a_calls_time(servers: Any) -> None:
    answer = threading.Event()
    server = servers(nothing)

    def hello(peer: Peer, number: int, *_: Any) -> None:
        assert answer.wait(60)
        peer.answer(number, HELLO)

    server.hello = hello

    async def calls(loop: Clock) -> None:
        saver = AsyncSteleSaver.from_url(server.url, timeout=3600, connect_timeout=7200)
        call = asyncio.create_task(saver.aget_tuple(CONFIG))
        await until(lambda: server.connections == 1)
        loop.passed = 4000
        await asyncio.wait([call], timeout=60)
        assert call.done(), "more than its time has passed"
        with pytest.raises(errors.SteleTimeoutError, match="within 3600 s"):
            call.result()
        answer.set()
        assert await saver.aget_tuple(CONFIG) is None
        await saver.aclose()

    run_with_clock(calls)
    assert server.connections == 1, "the attempt goes on for later calls"


def test_a_thread_that_waited_has_less_time(
    servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[Peer, int]] = []
    server = servers(lambda peer, number, *_: held.append((peer, number)))
    passed, limits = 0.0, []

    class Time:
        sleep = staticmethod(time.sleep)

        @staticmethod
        def monotonic() -> float:
            return passed

    monkeypatch.setattr(_sync, "time", Time)
    limit = _sync.Connection._wait_at_most

    def note(connection: _sync.Connection, timeout: float | None) -> None:
        limits.append(timeout)
        limit(connection, timeout)

    monkeypatch.setattr(_sync.Connection, "_wait_at_most", note)
    receive, waits = _sync.Connection._receive, []  # of hello, the first and the second

    def count(connection: _sync.Connection) -> Any:
        waits.append(connection)
        return receive(connection)

    monkeypatch.setattr(_sync.Connection, "_receive", count)
    failed: list[BaseException] = []

    def delete(saver: SteleSaver) -> None:
        try:
            saver.delete_thread("t")
        except errors.SteleError as error:
            failed.append(error)

    def start(saver: SteleSaver) -> threading.Thread:
        thread = threading.Thread(target=delete, args=(saver,))
        thread.start()
        return thread

    with SteleSaver.from_url(server.url, timeout=3600, max_connections=1) as saver:
        pool = saver._client._pool
        first = start(saver)
        asyncio.run(until(lambda: len(held) == 1 and len(waits) == 2))
        second, third = start(saver), start(saver)
        asyncio.run(until(lambda: pool._waiting == 2))
        passed = 2000
        held[0][0].answer(held[0][1], {})
        first.join()
        asyncio.run(until(lambda: len(held) == 2 and len(waits) == 3))
        passed = 4000
        held[1][0].answer(held[1][1], {})
        second.join()
        third.join()
    assert [type(error) for error in failed] == [errors.SteleTimeoutError]
    assert len(held) == 2, "a call whose time has passed is not sent"
    assert limits == [3600, 1600, 3600]


async def test_a_silent_connection_is_left(servers: Any) -> None:
    server = servers(lambda *_: None)
    async with AsyncSteleSaver.from_url(server.url, timeout=1) as saver:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await saver.adelete_thread("t")
            with pytest.raises(TimeoutError):
                [t async for t in saver.alist(CONFIG)]
        await until(lambda: server.connections - server.ended <= 1)
        server.handle = nothing
        assert await saver.aget_tuple(CONFIG) is None
        assert server.connections == 7

    def alive(peer: Peer, number: int, method: str, params: Any) -> None:
        peer.notify("items", {"call": number, "items": []})

    server.handle = alive
    async with AsyncSteleSaver.from_url(server.url, timeout=2) as saver:
        with pytest.raises(TimeoutError):
            await saver.adelete_thread("t")
        server.handle = nothing
        assert await saver.aget_tuple(CONFIG) is None
        assert server.connections == 8, "it says something, so it is left alone"


async def test_slots_that_are_not_answered_are_waited_for_in_time(servers: Any) -> None:
    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        peer.notify("items", {"call": number, "items": []})

    server = servers(handle)
    server.hello = lambda peer, number, *_: peer.answer(
        number, {**HELLO, "call_slots": 2}
    )
    async with AsyncSteleSaver.from_url(server.url, timeout=1) as saver:
        calls = [saver.adelete_thread("t") for _ in range(5)]
        async with asyncio.timeout(60):
            failed = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in failed] == [errors.SteleTimeoutError] * 5
            with pytest.raises(TimeoutError, match="2 calls that write"):
                await saver.adelete_thread("t")


def test_the_pool_is_bounded(servers: Any) -> None:
    gate = threading.Event()
    most = now = 0
    lock = threading.Lock()

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
            if now == 3:
                gate.set()
        gate.wait(30)
        with lock:
            now -= 1
        peer.answer(number, {"tuple": None})

    server = servers(handle)
    with SteleSaver.from_url(server.url, max_connections=3) as saver:
        threads = [
            threading.Thread(target=saver.get_tuple, args=(CONFIG,)) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (server.connections, most) == (3, 3)


def test_a_full_pool_says_so(servers: Any) -> None:
    handle, notified = listing(20)
    server = servers(handle)
    server.notified = notified
    with SteleSaver.from_url(server.url, max_connections=1, timeout=1) as saver:
        items = saver.list(CONFIG)
        next(items)
        with pytest.raises(errors.PoolTimeoutError, match="max_connections"):
            saver.get_tuple(CONFIG)


async def test_no_more_slots_than_the_server_remembers(servers: Any) -> None:
    def hello(peer: Peer, number: int, method: str, params: Any = None) -> None:
        peer.answer(number, {**HELLO, "call_slots": 2})

    busy: set[Any] = set()
    lock = threading.Lock()

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        call = params["call"]
        with lock:
            assert (call[0], call[1]) not in busy, "two calls of one slot at once"
            busy.add((call[0], call[1]))
            assert call[1] < 2

        def end() -> None:
            with lock:
                busy.discard((call[0], call[1]))
            peer.answer(number, {})

        threading.Timer(0.001, end).start()

    server = servers(handle)
    server.hello = hello
    async with AsyncSteleSaver.from_url(server.url) as saver:
        await asyncio.gather(*(saver.adelete_thread(str(i)) for i in range(20)))
    with SteleSaver.from_url(server.url) as saver:
        threads = [
            threading.Thread(target=saver.delete_thread, args=("t",)) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    slots = {
        (bytes(p["call"][0]), p["call"][1]) for p in server.requests("delete_thread")
    }
    assert len(slots) == 4 and {slot for _, slot in slots} == {0, 1}


async def test_a_cancelled_write_keeps_its_slot_until_it_is_answered(
    servers: Any,
) -> None:
    held: list[Any] = []

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        if params["thread"] == "slow":
            held.append((peer, number))
        else:
            peer.answer(number, {})

    server = servers(handle)
    async with AsyncSteleSaver.from_url(server.url) as saver:
        slow = asyncio.create_task(saver.adelete_thread("slow"))
        while not held:
            await asyncio.sleep(0.001)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await saver.adelete_thread("a")
        peer, number = held[0]
        peer.answer(number, {})
        await saver.adelete_thread("a")  # its answer comes after the other one
        await asyncio.gather(*(saver.adelete_thread("b") for _ in range(3)))
    slots = [p["call"][1] for p in server.requests("delete_thread")]
    assert slots[:2] == [0, 1]
    assert 0 in slots[2:], "the slot is used again"


@pytest.mark.parametrize(
    ("code", "cls", "builtin"),
    [
        ("invalid", errors.InvalidArgumentError, ValueError),
        ("too_large", errors.TooLargeError, ValueError),
        ("disk_full", errors.DiskFullError, OSError),
        ("thread_deleted", errors.ThreadDeletedError, Exception),
        ("unsupported", errors.UnsupportedError, NotImplementedError),
        ("unknown_outcome", errors.UnknownOutcomeError, Exception),
        ("what is this", errors.InternalError, Exception),
    ],
)
async def test_errors(servers: Any, code: str, cls: Any, builtin: Any) -> None:
    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        peer.error(number, code, thread="t")

    server = servers(handle)
    with SteleSaver.from_url(server.url) as saver:
        with pytest.raises(cls) as caught:
            saver.delete_thread("t")
        saver2 = saver
        assert isinstance(caught.value, builtin)
        assert caught.value.details == {"thread": "t"}
        assert caught.value.advice in str(caught.value)
        assert f"it is {code}" in str(caught.value)
        with pytest.raises(cls):
            saver2.get_tuple(CONFIG)
    assert server.connections == 1, "an error leaves the connection as it is"
    async with AsyncSteleSaver.from_url(server.url) as saver:
        with pytest.raises(cls):
            await saver.adelete_thread("t")


async def test_what_hello_refuses(servers: Any) -> None:
    server = servers(nothing)
    server.hello = lambda peer, number, *_: peer.error(number, "auth")
    with pytest.raises(errors.AuthError, match="STELE_TOKEN"):
        SteleSaver.from_url(server.url).setup()
    with pytest.raises(PermissionError):
        await AsyncSteleSaver.from_url(server.url).asetup()
    server.hello = lambda peer, number, *_: peer.error(number, "version", protocol=9)
    with pytest.raises(errors.VersionError, match="same release"):
        SteleSaver.from_url(server.url).setup()
    with pytest.raises(errors.VersionError):
        await AsyncSteleSaver.from_url(server.url).asetup()
    server.hello = lambda peer, number, *_: peer.answer(number, HELLO | {"protocol": 2})
    with pytest.raises(errors.VersionError, match="protocol 2, this client 1"):
        SteleSaver.from_url(server.url).setup()
    server.hello = lambda peer, number, *_: peer.answer(number, {"protocol": None})
    with pytest.raises(errors.ProtocolError):
        SteleSaver.from_url(server.url).setup()


async def test_a_call_that_ends_its_server_is_given_up(
    servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sync, "_FIRST_DELAY", 0.0)
    server = servers(lambda peer, *_: peer.close())
    with SteleSaver.from_url(server.url) as saver:
        with pytest.raises(errors.SteleConnectionError):
            saver.delete_thread("t")
        with pytest.raises(errors.SteleConnectionError):
            list(saver.list(CONFIG))
    async with AsyncSteleSaver.from_url(server.url) as saver:
        with pytest.raises(errors.SteleConnectionError):
            await saver.adelete_thread("t")
        with pytest.raises(errors.SteleConnectionError):
            [t async for t in saver.alist(CONFIG)]
    assert server.connections < 50


def test_close_wakes_a_call_that_waits(servers: Any) -> None:
    server = servers(lambda *_: asked.set())
    asked = threading.Event()
    saver = SteleSaver.from_url(server.url)
    failed: list[BaseException] = []

    def call() -> None:
        try:
            saver.get_tuple(CONFIG)
        except errors.SteleError as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert asked.wait(30)
    saver.close()
    thread.join(30)
    assert "closed" in str(failed[0])


def test_a_server_that_answers_bit_by_bit_has_one_deadline(servers: Any) -> None:
    """The limit of a socket begins anew with each byte; that of a call does not."""

    def notices(peer: Peer, number: int, method: str, params: Any) -> None:
        for _ in range(60):
            peer.notify("items", {"call": 0, "items": []})
            time.sleep(0.1)
        peer.answer(number, None)

    def slow(peer: Peer, number: int, method: str, params: Any) -> None:
        data = frame([1, number, None, {"a": "x" * 100}])
        for at in range(len(data)):
            peer.sock.sendall(data[at : at + 1])
            time.sleep(0.1)

    server = servers(nothing)
    for handle in (slow, notices):
        server.handle = handle
        # Enough that a machine which stalls answers the second call in time.
        with SteleSaver.from_url(server.url, timeout=2, max_connections=1) as saver:
            with pytest.raises(errors.SteleTimeoutError):
                saver.get_tuple(CONFIG)
            server.handle = nothing
            assert saver.get_tuple(CONFIG) is None, "a connection of its own"


def test_a_server_that_reads_bit_by_bit_has_one_deadline(servers: Any) -> None:
    server = servers(nothing)

    def hello(peer: Peer, number: int, *_: Any) -> None:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.answer(number, {**HELLO, "max_frame": 4 << 20})
        taken = 0
        while taken < 3 << 20 and (data := peer.sock.recv(32 << 10)):
            taken += len(data)
            time.sleep(0.05)
        peer.answer(number + 1, None)

    server.hello = hello
    saver = SteleSaver.from_url(server.url, timeout=0.5)
    with saver, pytest.raises(errors.SteleTimeoutError):
        saver.put_writes(
            {"configurable": {"thread_id": "t", "checkpoint_id": "1"}},
            [("a", b"x" * (3 << 20))],
            "task",
        )


def test_a_server_that_takes_and_answers_late_has_one_deadline(servers: Any) -> None:
    """A request that fits in one write waits for the server's buffer all the same."""
    server = servers(nothing)

    def hello(peer: Peer, number: int, *_: Any) -> None:
        peer.answer(number, HELLO)
        time.sleep(1.6)
        with peer.sock.makefile("rb") as stream:
            stream.read(int.from_bytes(stream.read(4), "big"))
        time.sleep(1.6)
        peer.answer(number + 1, None)

    server.hello = hello
    saver = SteleSaver.from_url(server.url, timeout=2)
    with saver, pytest.raises(errors.SteleTimeoutError):
        saver.put_writes(
            {"configurable": {"thread_id": "t", "checkpoint_id": "1"}},
            [("a", b"x" * 250_000)],
            "task",
        )


def test_an_answer_in_parts_leaves_the_next_call_its_time(servers: Any) -> None:
    def parts(peer: Peer, number: int, method: str, params: Any) -> None:
        data = frame([1, number, None, {"tuple": None}])
        peer.sock.sendall(data[:2])
        time.sleep(2.5)
        peer.sock.sendall(data[2:-1])
        time.sleep(0.1)
        peer.sock.sendall(data[-1:])

    def late(peer: Peer, number: int, method: str, params: Any) -> None:
        time.sleep(3)  # more than the answer in parts left, and less than there is
        nothing(peer, number, method, params)

    server = servers(nothing)
    with SteleSaver.from_url(server.url, timeout=5) as saver:
        for handle in (nothing, parts, late):
            server.handle = handle
            assert saver.get_tuple(CONFIG) is None


def test_close_while_a_thread_connects_leaves_no_connection(servers: Any) -> None:
    server = servers(nothing)
    asked, closed = threading.Event(), threading.Event()

    def hello(peer: Peer, number: int, *_: Any) -> None:
        asked.set()
        assert closed.wait(60)
        peer.answer(number, HELLO)

    server.hello = hello
    saver = SteleSaver.from_url(server.url)
    failed: list[BaseException] = []

    def call() -> None:
        try:
            saver.get_tuple(CONFIG)
        except errors.SteleError as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert asked.wait(30)
    saver.close()
    closed.set()
    thread.join(60)
    assert failed and "closed" in str(failed[0])
    assert server.requests("get") == []


async def test_close_while_connecting_leaves_no_connection(servers: Any) -> None:
    server = servers(nothing)
    asked, closed = threading.Event(), threading.Event()

    def hello(peer: Peer, number: int, *_: Any) -> None:
        asked.set()
        assert closed.wait(60)
        peer.answer(number, HELLO)

    server.hello = hello
    saver = AsyncSteleSaver.from_url(server.url)
    setup = asyncio.create_task(saver.asetup())
    await until(asked.is_set)
    await saver.aclose()
    closed.set()
    with pytest.raises(errors.SteleError, match="closed"):
        await setup
    await until(lambda: server.ended == 1)
    assert server.connections == 1


def test_close_ends_connections_that_are_left(servers: Any) -> None:
    """One that was silent stays while calls wait on it, beside the one in use."""
    server = servers(lambda *_: None)

    async def calls(loop: Clock) -> None:
        saver = AsyncSteleSaver.from_url(server.url, timeout=3600)
        first = asyncio.create_task(saver.aget_tuple(CONFIG))
        await until(lambda: len(server.requests("get")) == 1)
        loop.passed = 1800
        second = asyncio.create_task(saver.aget_tuple(CONFIG))
        await until(lambda: len(server.requests("get")) == 2)
        loop.passed = 3700
        with pytest.raises(errors.SteleTimeoutError):
            await first
        third = asyncio.create_task(saver.aget_tuple(CONFIG))
        await until(lambda: len(server.requests("get")) == 3)
        assert (server.connections, server.ended) == (2, 0)
        await saver.aclose()
        for call in (second, third):
            await asyncio.wait([call], timeout=60)
            assert call.done(), "its connection has ended"
            with pytest.raises(errors.SteleError, match="closed"):
                call.result()
        await until(lambda: server.ended == 2)

    run_with_clock(calls)


async def test_nobody_is_there(tmp_path: Path) -> None:
    url = f"unix:{tmp_path}/none"
    with pytest.raises(errors.SteleConnectionError, match="no server answers"):
        SteleSaver.from_url(url, connect_timeout=0.05).setup()
    with pytest.raises(ConnectionError):
        saver = AsyncSteleSaver.from_url(url, connect_timeout=0.05)
        await saver.asetup()


def test_times_that_are_no_times() -> None:
    infinite, nan = float("inf"), float("nan")
    for wrong in (0, -1, infinite, nan):
        with pytest.raises(errors.InvalidArgumentError, match="seconds, or None"):
            SteleSaver.from_url("unix:x", timeout=wrong)
    for wrong in (-1, infinite, nan):
        with pytest.raises(errors.InvalidArgumentError, match="seconds"):
            SteleSaver.from_url("unix:x", connect_timeout=wrong)
    with pytest.raises(errors.InvalidArgumentError, match="1 or more"):
        SteleSaver.from_url("unix:x", max_connections=0)


@pytest.mark.parametrize("url", ["", "http://x", "tcp:host", "tcp:h:99999", "unix:"])
def test_bad_urls(url: str) -> None:
    with pytest.raises(ValueError, match="tcp:HOST:PORT"):
        SteleSaver.from_url(url)


async def test_a_closed_saver_says_so(servers: Any) -> None:
    url = servers(nothing).url
    saver = SteleSaver.from_url(url)
    saver.setup()
    saver.close()
    with pytest.raises(errors.SteleError, match="closed"):
        saver.get_tuple(CONFIG)
    with pytest.raises(errors.SteleError, match="closed"):
        await saver.aget_tuple(CONFIG)


def test_what_cannot_be_sent_is_a_value_error(servers: Any) -> None:
    server = servers(nothing)
    with SteleSaver.from_url(server.url) as saver:
        for half in ("\ud800", "\udc00" + "a" * 60):
            with pytest.raises(
                errors.InvalidArgumentError, match=r"^thread_id has half of a character"
            ):
                saver.delete_thread(half)
            with pytest.raises(
                errors.InvalidArgumentError, match=r"^the id of the target thread has"
            ):
                saver.copy_thread("t", half)
            for namespace, key in ((("n", half), "k"), (("n",), half)):
                with pytest.raises(
                    errors.InvalidArgumentError,
                    match=r"^(namespace|key) has half of a character",
                ):
                    SteleStore(saver._client).put(namespace, key, {})
            store = SteleStore(saver._client)
            for value, path in (
                ({"a": [1, {"b": half}]}, r"value\.a\[1\]\.b"),
                ({"a": {half: 1}}, r"a name in value\.a"),
                ({half: 1}, "a name in value"),
            ):
                with pytest.raises(
                    errors.InvalidArgumentError, match=f"^{path} has half of a"
                ):
                    store.put(("n",), "k", value)
            with pytest.raises(errors.InvalidArgumentError, match=r"^filter\.a has"):
                store.search(("n",), filter={"a": half})
            with pytest.raises(errors.InvalidArgumentError, match=r"^filter\.a has"):
                list(saver.list(None, filter={"a": half}))
            with pytest.raises(errors.InvalidArgumentError, match=r"^metadata\.a has"):
                saver.put(CONFIG, empty_checkpoint(), {"a": half}, {})  # type: ignore[typeddict-unknown-key]
            with pytest.raises(errors.InvalidArgumentError, match=r"^metadata\.a has"):
                list(saver.threads(metadata={"a": half}))
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": object()}}
        with pytest.raises(errors.InvalidArgumentError):
            saver.get_tuple(config)
        nobody: Any = {"configurable": {"thread_id": None, "checkpoint_ns": ""}}
        with pytest.raises(errors.InvalidArgumentError, match="name a thread"):
            saver.put(nobody, empty_checkpoint(), {}, {})
        with pytest.raises(errors.TooLargeError, match="1048576"):
            saver.put_writes(
                {"configurable": {"thread_id": "t", "checkpoint_id": "1"}},
                [("a", b"x" * (2 << 20))],
                "task",
            )
        with pytest.raises(errors.InvalidArgumentError, match="keep_latest"):
            saver.prune(["t"], strategy="some")
        with pytest.raises(errors.InvalidArgumentError):
            SteleStore(saver._client).batch([object()])  # type: ignore[list-item]
        assert saver.get_tuple(CONFIG) is None
    assert server.connections == 1
    assert [m[2] for m in server.messages] == ["hello", "get"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork_a_client_has_its_own_connections(servers: Any) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))
    with SteleSaver.from_url(server.url) as saver:
        saver.delete_thread("parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                saver.delete_thread("child")
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        saver.delete_thread("parent")
    calls = [p["call"] for p in server.requests("delete_thread")]
    assert calls[0][0] == calls[2][0] != calls[1][0], "a child is a client of its own"
    assert calls[2][2] == calls[0][2] + 1
    assert server.connections == 2


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_one_saver_in_many_event_loops(servers: Any, run: Any) -> None:
    server = servers(nothing)
    saver = SteleSaver.from_url(server.url)
    for _ in range(3):
        assert run(_aget(saver)) is None
    assert server.connections == 3
    gc.collect()
    asyncio.run(until(lambda: server.ended >= 2))  # uvloop ends all with its loops
    saver.close()
    asyncio.run(until(lambda: server.ended == 3))


async def test_a_saver_that_is_dropped_ends_its_connections(servers: Any) -> None:
    server = servers(nothing)
    for _ in range(3):
        saver = SteleSaver.from_url(server.url)
        assert await saver.aget_tuple(CONFIG) is None
        assert await asyncio.to_thread(saver.get_tuple, CONFIG) is None
    del saver
    gc.collect()
    await until(lambda: server.ended == 6)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.001)


async def _aget(saver: SteleSaver) -> Any:
    return await saver.aget_tuple(CONFIG)


async def test_async_savers_refuse_to_block_their_loop(servers: Any) -> None:
    async with AsyncSteleSaver.from_url(servers(nothing).url) as saver:
        with pytest.raises(asyncio.InvalidStateError, match="aget_tuple"):
            saver.get_tuple(CONFIG)
        for refused in (lambda: list(saver.list(CONFIG)), saver.flush, saver.stats):
            with pytest.raises(asyncio.InvalidStateError, match="another thread"):
                refused()
        assert await asyncio.to_thread(saver.get_tuple, CONFIG) is None


def test_next_version() -> None:
    saver = SteleSaver.from_url("unix:none")
    first = saver.get_next_version(None, None)
    assert first.startswith(f"{1:032}.") and len(first) >= 49
    assert saver.get_next_version(first, None).startswith(f"{2:032}.")
    assert saver.get_next_version(7, None).startswith(f"{8:032}.")  # type: ignore[arg-type]
    assert saver.get_next_version(None, None) != first


def test_only_new_values_are_sent(servers: Any) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))
    with SteleSaver.from_url(server.url) as saver:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"a": 1, "b": 2}
        checkpoint["channel_versions"] = {"a": "1", "b": "1", "c": "1"}
        saver.put(CONFIG, checkpoint, {"step": 1}, {"a": "1", "c": "1"})
    (put,) = server.requests("put")
    assert put["checkpoint"]["values"] == {"a": ["msgpack", b"\x01"]}
    assert put["new_versions"] == {"a": "1", "c": "1"}


def test_what_is_deferred(servers: Any) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_id": "1"}}
    null = "00000000-0000-0000-0000-000000000000"
    for defer in (True, False):
        with SteleSaver.from_url(server.url, defer_writes=defer) as saver:
            saver.put_writes(config, [("a", 1), ("b", 2)], "task")
            saver.put_writes(config, [("a", 1), ("__interrupt__", 2)], "task")
            for channel in ("__error__", "__resume__", "__error_source_node__"):
                saver.put_writes(config, [(channel, 1)], "task")
            saver.put_writes(config, [("a", 1)], null)
    deferred = [p.get("defer_sync") for p in server.requests("put_writes")]
    assert deferred == [True, *[None] * 11]


@pytest.mark.parametrize("defer", [None, True, False])
@pytest.mark.parametrize("url", ["", "unix:s", "tcp:localhost:1", "tls:localhost:1"])
async def test_nothing_is_deferred_where_power_may_be_lost_alone(
    tmp_path: Path, url: str, defer: bool | None
) -> None:
    given: Any = {} if defer is None else {"defer_writes": defer}
    for kind in (SteleSaver, AsyncSteleSaver):
        saver = kind.from_url(url, **given) if url else kind.from_dir(tmp_path, **given)
        saver._client = Mock(awrite=AsyncMock())
        for id in ("1", "2"):
            await saver.aput_writes(of(id), [("a", 1)], "task")
        await saver.aput(of("0"), a_checkpoint("1"), {}, {})
        deferred = ["defer_sync" in c.args[1] for c in saver._client.awrite.mock_calls]
        local = not url.startswith("t")
        assert deferred == [local if defer is None else defer] * 3


def a_checkpoint(id: str) -> Any:
    return {**empty_checkpoint(), "id": id}


def of(id: str) -> Any:
    return {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}
    }


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_checkpoint_that_another_follows_is_deferred(
    servers: Any, blocking: bool
) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))

    async def put(saver: SteleSaver, id: str, parent: str = "0") -> None:
        if blocking:
            saver.put(of(parent), a_checkpoint(id), {}, {})
        else:
            await saver.aput(of(parent), a_checkpoint(id), {}, {})

    async def write(saver: SteleSaver, id: str, channel: str) -> None:
        if blocking:
            saver.put_writes(of(id), [(channel, 1)], f"task {channel}")
        else:
            await saver.aput_writes(of(id), [(channel, 1)], f"task {channel}")

    for defer in (True, False):
        saver = SteleSaver.from_url(server.url, defer_writes=defer)
        await put(saver, "1")
        await write(saver, "2", "a")
        await put(saver, "2")  # the run may have ended here
        await write(saver, "3", "a")
        await write(saver, "3", "__interrupt__")
        await write(saver, "4", "__interrupt__")
        await put(saver, "3")  # nothing says that 4 is put
        await write(saver, "5", "a")
        await write(saver, "6", "a")
        await put(saver, "4")  # has no writes that say that the run went on
        await put(saver, "5")  # 6 follows
        await put(saver, "6")
        await put(saver, "5")  # now nothing does
        await write(saver, "61", "a")
        await write(saver, "62", "a")
        await write(saver, "61", "__interrupt__")
        await put(saver, "61")  # a run ends here, though another is ahead
        await put(saver, "62")
        # The other way round: writes of what is there say nothing.
        for id in ("9", "8", "7"):
            await put(saver, id)
            await write(saver, id, "a")
            await put(saver, id)
        # A run goes on from a checkpoint of another process, whose clock was ahead.
        await write(saver, "z", "a")
        await write(saver, "zz", "a")
        await write(saver, "y", "a")
        await put(saver, "y", parent="zz")
        await saver.aclose()
    puts = [
        (p["checkpoint"]["id"], p.get("defer_sync")) for p in server.requests("put")
    ]
    half = len(puts) // 2
    assert [id for id, deferred in puts[:half] if deferred] == ["5"]
    assert not any(deferred for _, deferred in puts[half:])


class Counted(TypedDict):
    n: int


@pytest.mark.parametrize(
    ("end", "writes"),
    [
        ("done", 6),
        ("asks", 6),
        ("fails", 6),
        ("asks beside another", 7),
        ("clashes with another", 7),
        ("times out beside another", 6),
        ("is left beside another", 6),
    ],
)
def test_the_checkpoints_of_a_run_are_durable_when_it_returns(
    servers: Any, end: str, writes: int
) -> None:
    """A run gets ahead of its first put, which is held until all writes are stored."""
    stored, returned = threading.Event(), threading.Event()
    numbers = itertools.count(1)

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        if method == "put":
            stored.wait(10)
        peer.answer(number, {"tuple": None})
        if method == "put_writes" and next(numbers) == writes:
            # The client has the answer when it asks again.
            threading.Timer(0.1, stored.set).start()

    def count(state: Counted) -> Any:
        n = state["n"] + 1
        if n < 4:
            return Command(update={"n": n}, goto="count")
        after = ["final", "other"] if "another" in end else "final"
        return Command(update={"n": n}, goto=after)

    def final(state: Counted) -> Any:
        if "asks" in end:
            interrupt("?")
        if end == "fails":
            raise ZeroDivisionError
        if "times out" in end or "left" in end:
            returned.wait(2)
        return {"n": 5}

    def other(state: Counted) -> Any:
        return {"n": 6} if "clashes" in end else {}

    server = servers(handle)
    builder = StateGraph(Counted).add_node(count).add_node(final).add_node(other)
    with SteleSaver.from_url(server.url) as saver:
        app = builder.add_edge(START, "count").compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}, "max_concurrency": 16}
        if "times out" in end:
            app.step_timeout = 1
        try:
            chunks = app.stream(
                {"n": 0}, config, stream_mode="updates", durability="async"
            )
            with closing(chunks):
                for chunk in chunks:
                    if "left" in end and "other" in chunk:
                        break
        except (ZeroDivisionError, InvalidUpdateError, TimeoutError) as error:
            assert end.split()[0] in ("fails", "clashes", "times"), error
        calls = [
            (m[2], "defer_sync" in m[3][0])
            for m in server.messages
            if m[0] == 0 and m[2] in ("put", "put_writes", "sync")
        ]
        returned.set()
    puts = [deferred for method, deferred in calls if method == "put"]
    assert len(puts) >= 5
    assert any(puts)
    # A call that syncs is behind every deferred put.
    behind = calls[len(calls) - calls[::-1].index(("put", True)) :]
    assert any(not deferred for _, deferred in behind)


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
@pytest.mark.parametrize("first", ["the question", "the writes"])
@pytest.mark.parametrize("end", ["__interrupt__", "__error__"])
@pytest.mark.parametrize("blocking", [True, False])
async def test_what_is_written_beside_a_question_is_durable_when_the_run_returns(
    servers: Any, blocking: bool, end: str, first: str, durability: Any
) -> None:
    """What is deferred is stored last: behind the question, or error, and the puts."""
    puts = itertools.count(1)
    begun, asked, stored = (threading.Event() for _ in range(3))
    calls: list[tuple[str, bool]] = []
    channels: list[str] = []

    def handle(peer: Peer, number: int, method: str, params: Any) -> None:
        written = [channel for channel, _ in params.get("writes", ())]
        channels.extend(written)
        held = "text" in written and "defer_sync" in params

        def answer() -> None:
            if held:
                asked.wait(10)
                stored.wait(10)
            if method != "get":
                calls.append((method, held))
            peer.answer(number, {"tuple": None})

        if "text" in written:
            begun.set()
        if held:
            threading.Thread(target=answer).start()
            return
        answer()
        if end in written:
            asked.set()
        if method == "put" and next(puts) == (1 if durability == "exit" else 2):
            stored.set()

    def asks(state: Any) -> Any:
        if first == "the writes":
            begun.wait(0.1 if durability == "exit" else 10)
        if end == "__error__":
            raise ZeroDivisionError
        return {"n": interrupt("?")}

    def writes(state: Any) -> Any:
        if first == "the question":
            asked.wait(0.1 if durability == "exit" else 10)
            stored.wait(0 if durability == "exit" else 10)
        return {"text": "kept"}

    async def aasks(state: Any) -> Any:
        return await asyncio.to_thread(asks, state)

    async def awrites(state: Any) -> Any:
        return await asyncio.to_thread(writes, state)

    server = servers(handle)
    builder = StateGraph(TypedDict("State", {"n": int, "text": str}))
    builder.add_node("asks", asks if blocking else aasks)
    builder.add_node("writes", writes if blocking else awrites)
    builder.add_edge(START, "asks").add_edge(START, "writes")
    saver = (SteleSaver if blocking else AsyncSteleSaver).from_url(server.url)
    app = builder.compile(checkpointer=saver)
    try:
        if blocking:
            app.invoke({"n": 0}, CONFIG, durability=durability)
        else:
            await app.ainvoke({"n": 0}, CONFIG, durability=durability)
    except ZeroDivisionError:
        assert end == "__error__"
    finally:
        await saver.aclose()
    assert end in channels
    # A task that runs where another fails is left: by asyncio, and by threads that
    # end behind their pool.
    assert "text" in channels or end == "__error__"
    assert not calls[-1][1], calls


@pytest.mark.parametrize("failure", ["", "unsupported", "disk_full"])
@pytest.mark.parametrize("method", ["put_writes", "put"])
@pytest.mark.parametrize("blocking", [True, False])
async def test_what_is_under_way_when_a_task_asks_is_synced(
    servers: Any, blocking: bool, method: str, failure: str
) -> None:
    held: list[tuple[Peer, int]] = []
    begun = threading.Event()

    def handle(peer: Peer, number: int, asked: str, params: Any) -> None:
        id = params.get("id") or params.get("checkpoint", {}).get("id")
        if (asked, id) == (method, "2") and not begun.is_set():
            held.append((peer, number))
            begun.set()
        elif asked == "sync" and failure:
            peer.error(number, failure)
        else:
            peer.answer(number, {})

    server = servers(handle)
    async with AsyncSteleSaver.from_url(server.url) as saver:

        async def call(name: str, *args: Any) -> Any:
            if blocking:
                return await asyncio.to_thread(getattr(saver, name), *args)
            return await getattr(saver, f"a{name}")(*args)

        if method == "put":
            for id in ("2", "3"):
                await call("put_writes", of(id), [("a", 1)], "task")
            under_way = call("put", of("1"), a_checkpoint("2"), {}, {})
        else:
            under_way = call("put_writes", of("2"), [("a", 1)], "task")
        waiting = asyncio.create_task(under_way)
        await asyncio.to_thread(begun.wait, 10)
        await call("put_writes", of("2"), [("__interrupt__", 1)], "another")
        peer, number = held.pop()
        peer.answer(number, {})
        if failure == "disk_full":
            with pytest.raises(errors.DiskFullError):
                await waiting
        else:
            await waiting  # a store without sync defers nothing
        assert len(server.requests("sync")) == 1

        # Now it is known.
        await call("put_writes", of("2"), [("a", 1)], "third")
        await call("put", of("1"), a_checkpoint("2"), {}, {})
        await call("put_writes", of("4"), [("__error__", 1)], "failed")
        await call("put_writes", of("4"), [("a", 1)], "task")
    last = [m[3][0].get("defer_sync") for m in server.messages if m[0] == 0][-4:]
    assert last == [None] * 4
    assert len(server.requests("sync")) == 1


def test_what_is_forgotten_is_synced(servers: Any) -> None:
    server = servers(lambda peer, number, *_: peer.answer(number, {}))
    with SteleSaver.from_url(server.url) as saver:
        for n in range(1025):
            saver.put_writes(of(f"{n:04}"), [("__interrupt__", 1)], "task")
        for id in ("0000", "0001", "2000"):
            saver.put_writes(of(id), [("a", 1)], "another")
    deferred = [p.get("defer_sync") for p in server.requests("put_writes")]
    assert deferred == [*[None] * 1027, True]


LIMITS: Any = (-1, float("nan"), 1.5, float("inf"), "7", [], 1 << 63)


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_wrong_limit_is_refused_before_anything_is_sent(limit: Any) -> None:
    nowhere = "unix:/nowhere/at/all"
    with closing(SteleSaver.from_url(nowhere)) as saver:
        for listing in (saver.list(None, limit=limit), saver.threads(limit=limit)):
            with pytest.raises(errors.InvalidArgumentError, match="limit is "):
                next(iter(listing))
    async with aclosing(AsyncSteleSaver.from_url(nowhere)) as asked:
        with pytest.raises(errors.InvalidArgumentError, match="limit is "):
            await anext(asked.alist(None, limit=limit))
        with pytest.raises(errors.InvalidArgumentError, match="limit is "):
            await anext(asked.athreads(limit=limit))
    with closing(SteleStore.from_url(nowhere)) as store:
        for name in ("limit", "offset"):
            with pytest.raises(errors.InvalidArgumentError, match=f"{name} is "):
                store.search(("a",), **{name: limit})
            with pytest.raises(errors.InvalidArgumentError, match=f"{name} is "):
                store.list_namespaces(**{name: limit})
