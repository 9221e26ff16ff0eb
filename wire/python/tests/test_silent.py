"""A server that takes what is said and says nothing, or stops in the middle.

Whatever is asked of it, the call ends with an error that says so.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake import HELLO, Peer, Server, frame
from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver, errors
from langgraph.store.stele import AsyncSteleStore, SteleStore

HERE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
AT: Any = {
    "configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}
}

# What to give each method of a saver that asks the server.
SAVER: dict[str, tuple[Any, ...] | dict[str, Any]] = {
    "copy_thread": ("t", "u"),
    "delete_for_runs": (["r"],),
    "delete_thread": ("t",),
    "erase": (["t"],),
    "flush": (),
    "get": (AT,),
    "get_delta_channel_history": {"config": AT, "channels": ["c"]},
    "get_tuple": (AT,),
    "list": (HERE,),
    "prune": (["t"],),
    "put": (HERE, empty_checkpoint(), {}, {}),
    "put_writes": (AT, [("c", 1)], "task"),
    "set_ttl": ("t", 60),
    "setup": (),
    "stats": (),
    "threads": (),
}
STORE: dict[str, tuple[Any, ...] | dict[str, Any]] = {
    "delete": (("a",), "k"),
    "get": (("a",), "k"),
    "list_namespaces": (),
    "put": (("a",), "k", {"n": 1}),
    "search": (("a",),),
    "setup": (),
}
# These ask nothing.
OTHERS = {"close", "from_dir", "from_url", "get_next_version", "with_allowlist"}
OTHERS |= {"batch", "supports_ttl", "ttl_config"}  # what all methods of a store are


def half(peer: Peer, answer: Any) -> None:
    """The beginning of an answer."""
    sent = frame(answer)
    peer.sock.sendall(sent[: len(sent) // 2])


Handler = Callable[[Peer, int, str, dict[str, Any]], None]


def silent(peer: Peer, number: int, method: str, params: dict[str, Any]) -> None:
    """Says nothing."""


def stops(peer: Peer, number: int, method: str, params: dict[str, Any]) -> None:
    """Stops in the middle of its answer."""
    half(peer, [1, number, None, {"tuple": None, "results": [None]}])


def stops_items(peer: Peer, number: int, method: str, params: dict[str, Any]) -> None:
    """Sends the first items of a listing, and then nothing."""
    peer.notify("items", {"call": number, "items": []})


def stops_hello(peer: Peer, number: int, method: str, params: dict[str, Any]) -> None:
    """Stops in the middle of its first answer."""
    half(peer, [1, number, None, HELLO])


WAYS: dict[str, tuple[Handler | None, Handler]] = {
    "hello": (silent, silent),
    "within hello": (stops_hello, silent),
    "call": (None, silent),
    "within an answer": (None, stops),
    "within a listing": (None, stops_items),
}


@pytest.fixture(params=WAYS)
def server(request: Any, tmp_path: Path) -> Iterator[Server]:
    hello, handle = WAYS[request.param]
    made = Server(tmp_path / "s", handle)
    if hello is not None:
        made.hello = hello
    yield made
    made.stop()


def made_call(of: Any, name: str, args: Any) -> Any:
    method = getattr(of, name)
    return method(**args) if isinstance(args, dict) else method(*args)


def ended(call: Callable[[], Any]) -> BaseException | None:
    """What a call ends with."""
    try:
        result = call()
        if inspect.isgenerator(result):
            list(result)
    except BaseException as error:
        return error
    return None


async def ended_in_loop(call: Callable[[], Any]) -> BaseException | None:
    """What a call ends with, in a loop."""
    try:
        result = call()
        if inspect.isasyncgen(result):
            [item async for item in result]
        else:
            await result
    except errors.SteleError as error:
        return error
    return None


def check(server: Server, name: str, error: BaseException | None) -> None:
    """It is late, and says what to do; or nothing was asked of the server."""
    if name == "setup" and error is None:
        assert server.hello is not silent
        return
    assert isinstance(error, errors.SteleTimeoutError), (name, error)
    assert "stopped or busy" in str(error)
    assert "timeout= is too short" in str(error)


@pytest.mark.parametrize(("of", "calls"), [(SteleSaver, SAVER), (SteleStore, STORE)])
def test_every_call_ends(server: Server, of: Any, calls: Any) -> None:
    got: dict[str, BaseException | None] = {}

    def run(name: str, args: Any) -> None:
        made = of.from_url(server.url, timeout=0.2, connect_timeout=0.2)
        got[name] = ended(lambda: made_call(made, name, args))
        made.close()

    threads = [
        threading.Thread(target=run, args=it, daemon=True) for it in calls.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got.keys() == calls.keys(), "a call does not end"
    for name, error in got.items():
        check(server, name, error)


@pytest.mark.parametrize(
    ("of", "calls"), [(AsyncSteleSaver, SAVER), (AsyncSteleStore, STORE)]
)
async def test_every_call_in_a_loop_ends(server: Server, of: Any, calls: Any) -> None:
    printed: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: printed.append(context))

    async def run(name: str, args: Any) -> None:
        made = of.from_url(server.url, timeout=0.2, connect_timeout=0.2)
        error = await ended_in_loop(lambda: made_call(made, f"a{name}", args))
        await made.aclose()
        check(server, name, error)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for name, args in calls.items():
            group.create_task(run(name, args))
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
    gc.collect()
    assert not printed, "what nobody waits for is not for the log"


def test_there_are_no_others() -> None:
    for of, calls in ((SteleSaver, SAVER), (SteleStore, STORE)):
        for name, method in inspect.getmembers(of, inspect.isroutine):
            blocking = name[1:] if hasattr(of, name[1:]) else name
            if not name.startswith("_") and not name.startswith("with_"):
                assert blocking in calls or blocking in OTHERS, (of, name, method)


async def test_the_first_connection_ends_and_the_next_is_silent(tmp_path: Path) -> None:
    """What the first attempt met says more than that the last one was cut off."""
    for of in (SteleSaver, AsyncSteleSaver):
        server = Server(tmp_path / of.__name__, silent)
        greeted: list[Peer] = []

        def hello(peer: Peer, *_: Any, greeted: list[Peer] = greeted) -> None:
            greeted.append(peer)
            if len(greeted) == 1:
                peer.close()

        server.hello = hello
        made: Any = of.from_url(server.url, connect_timeout=2)
        with pytest.raises(errors.SteleConnectionError, match="closed the connection"):
            if of is SteleSaver:
                await asyncio.to_thread(made.setup)
            else:
                await made.asetup()
        assert len(greeted) == 2
        await made.aclose() if of is AsyncSteleSaver else made.close()
        server.stop()
