"""The server's life under from_dir, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import json
import operator
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import ormsgpack
import pytest
from conftest import stele
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from servers import end_server, kill_server, server_pid
from typing_extensions import TypedDict

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver, errors
from langgraph.checkpoint.stele._endpoint import Address, Directory, find_binary
from langgraph.checkpoint.stele._wire import prove
from langgraph.store.stele import AsyncSteleStore, SteleStore


def config(thread: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def put(saver: SteleSaver, thread: str = "t", value: Any = 1, **metadata: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": value}
    checkpoint["channel_versions"] = {"a": "1"}
    meta: Any = {"step": 1, **metadata}
    return saver.put(config(thread), checkpoint, meta, {"a": "1"})


def run(source: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", source, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_the_first_one_starts_a_server_and_others_share_it(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as first:
        pid = server_pid(directory)
        assert pid is not None and os.getsid(pid) != os.getsid(0)
        put(first, value="shared")
        with SteleSaver.from_dir(directory) as second, SteleStore.from_dir(directory):
            assert server_pid(directory) == pid
            found = second.get_tuple(config())
            assert found is not None
            assert found.checkpoint["channel_values"] == {"a": "shared"}


def test_many_who_start_at_once_share_one_server(directory: Path) -> None:
    source = (
        "import sys; from langgraph.checkpoint.stele import SteleSaver\n"
        "from threading import Thread\n"
        "def one():\n"
        "    with SteleSaver.from_dir(sys.argv[1]) as saver:\n"
        "        assert saver.get_tuple({'configurable': {'thread_id': 't'}}) is None\n"
        "        done.append(1)\n"
        "done = []\n"
        "threads = [Thread(target=one) for _ in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(done))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", source, directory], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [p.communicate(timeout=120)[0] for p in processes] == ["4\n"] * 4


def test_a_directory_that_comes_while_it_is_looked_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Path.stat

    def and_then_another_client_makes_it(
        path: Path, *, follow_symlinks: bool = True
    ) -> os.stat_result:
        try:
            return look(path, follow_symlinks=follow_symlinks)
        finally:
            if path == directory:
                os.makedirs(directory, exist_ok=True)

    assert not directory.exists()
    monkeypatch.setattr(Path, "stat", and_then_another_client_makes_it)
    with SteleSaver.from_dir(directory) as saver:
        assert saver.get_tuple(config()) is None


def test_a_server_survives_who_started_it(directory: Path) -> None:
    run(
        "import sys; from langgraph.checkpoint.stele import SteleSaver\n"
        "SteleSaver.from_dir(sys.argv[1]).setup()",
        directory,
    )
    pid = server_pid(directory)
    assert pid is not None
    with SteleSaver.from_dir(directory):
        assert server_pid(directory) == pid


def test_a_server_that_nobody_uses_ends(directory: Path) -> None:
    with SteleSaver.from_dir(directory, idle_exit=0.2) as saver:
        put(saver)
        time.sleep(0.5)
        assert server_pid(directory) is not None, "it is in use"
    deadline = time.monotonic() + 30
    while (directory / "serve.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with SteleSaver.from_dir(directory) as saver:
        assert saver.get_tuple(config()) is not None


async def test_a_killed_server_is_started_again(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
        for _ in range(2):
            assert kill_server(directory)
            assert saver.get_tuple(config()) is not None
    async with AsyncSteleSaver.from_dir(directory) as asaver:
        for _ in range(2):
            assert kill_server(directory)
            found = await asyncio.gather(*(asaver.aget_tuple(config()) for _ in "1234"))
            assert None not in found


def test_a_server_that_ends_gently_is_no_matter(directory: Path) -> None:
    stop = threading.Event()
    done: list[int] = [0, 0, 0, 0]
    failed: list[BaseException] = []

    def work(saver: SteleSaver, worker: int) -> None:
        try:
            while not stop.is_set():
                put(saver, f"t{worker}")
                done[worker] += 1
        except BaseException as error:
            failed.append(error)

    with SteleSaver.from_dir(directory) as saver:
        threads = [threading.Thread(target=work, args=(saver, i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            before = sum(done)
            while sum(done) < before + 20 and not failed:
                time.sleep(0.001)
            pid = server_pid(directory)
            if pid is not None:
                os.kill(pid, signal.SIGTERM)
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed
        for worker in range(4):
            assert len(list(saver.list(config(f"t{worker}")))) == done[worker]


def test_traces_of_a_killed_server_keep_nobody_out(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
    kill_server(directory)
    assert (directory / "serve.json").exists()
    for text in (b"", b"{", b"[]", b'{"address": 7}', b'{"address": "tcp:x"}'):
        (directory / "serve.json").write_bytes(text)
        with SteleSaver.from_dir(directory) as saver:
            assert saver.get_tuple(config()) is not None
        kill_server(directory)


def test_a_server_that_is_killed_as_it_starts(directory: Path, tmp_path: Path) -> None:
    program, starts = tmp_path / "stele", tmp_path / "starts"
    program.write_text(
        f'''#!/bin/sh
echo >>"{starts}"
case $(wc -l <"{starts}") in
*1) kill -9 $$ ;;
*2) kill $$ ;;
*3) exit 0 ;;
esac
exec "{find_binary()}" "$@"
'''
    )
    program.chmod(0o755)
    with SteleSaver.from_dir(directory, binary=program) as saver:
        put(saver)
    assert len(starts.read_bytes()) == 4


def test_servers_that_end_by_themselves_are_said_to(
    directory: Path, tmp_path: Path
) -> None:
    program = tmp_path / "stele"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    saver = SteleSaver.from_dir(directory, binary=program, start_timeout=0.5)
    with pytest.raises(errors.SteleConnectionError, match="ended with code 0"):
        saver.setup()


def test_a_server_that_stays_for_a_moment_waits_for_its_first_client(
    directory: Path,
) -> None:
    with SteleSaver.from_dir(directory, idle_exit=0.001) as saver:
        put(saver)


@pytest.mark.parametrize("server", ["runs", "ended"])
def test_a_store_that_was_moved_away_is_not_replaced(
    make_directory: Callable[[], Path], server: str
) -> None:
    directory, moved = make_directory(), make_directory()
    with SteleSaver.from_dir(directory) as saver, SteleStore.from_dir(directory) as st:
        put(saver)
        calls: list[Callable[[], Any]] = [
            lambda: put(saver),
            saver.flush,
            lambda: list(saver.list(config())),
            lambda: st.get(("a",), "k"),
        ]

        def refused(text: str) -> None:
            for call in calls:
                with pytest.raises(errors.DirectoryError, match=text):
                    call()

        if server == "ended":
            end_server(directory)
        directory.rename(moved)
        refused("is gone; put it back")
        assert not directory.exists()
        directory.mkdir()  # such as where a volume is not mounted any more
        refused("is gone; put it back")
        assert not any(directory.iterdir())
        with SteleSaver.from_dir(directory) as other:  # who does not know
            put(other, value="other")
            refused("another store than the one that was used")
            assert len(list(other.list(config()))) == 1
        end_server(directory)
        end_server(moved)
        shutil.rmtree(directory)
        moved.rename(directory)
        assert len(list(saver.list(config()))) == 1
        put(saver)


def test_a_store_that_was_restored_in_its_place_is_used(
    make_directory: Callable[[], Path], tmp_path: Path
) -> None:
    directory, backup = make_directory(), tmp_path / "backup"
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
        end_server(directory)
        stele("backup", directory, backup)
        shutil.rmtree(directory)
        stele("restore", backup, directory)
        assert len(list(saver.list(config()))) == 1


async def test_a_store_that_was_moved_away_asyncio(
    make_directory: Callable[[], Path],
) -> None:
    directory, moved = make_directory(), make_directory()
    async with AsyncSteleSaver.from_dir(directory) as saver:
        assert await saver.aget_tuple(config()) is None
        directory.rename(moved)
        with pytest.raises(errors.DirectoryError, match="is gone; put it back"):
            await saver.aget_tuple(config())
        with SteleSaver.from_dir(directory) as other:
            put(other)
            with pytest.raises(errors.DirectoryError, match="another store than"):
                await saver.aget_tuple(config())
    end_server(moved)


def test_a_directory_with_a_long_path(make_directory: Callable[[], Path]) -> None:
    root = make_directory()
    directory = root / ("x" * 100) / "data"
    directory.parent.mkdir(parents=True)
    try:
        with SteleSaver.from_dir(directory) as saver:
            put(saver)
            assert saver.get_tuple(config()) is not None
    finally:
        end_server(directory)


async def test_a_stopped_server_is_told_in_one_sentence(directory: Path) -> None:
    with SteleSaver.from_dir(directory, timeout=0.5) as saver:
        pid = server_pid(directory)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        while ") T " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.001)
        try:
            with pytest.raises(errors.SteleTimeoutError) as late:
                saver.get_tuple(config())
            why = "the server is stopped or busy, or"
            assert str(late.value) == (
                f"get was not answered within 0.5 s: {why} timeout= is too short"
            )
            other = SteleSaver.from_dir(directory, start_timeout=0.5)
            for ask in (
                lambda: asyncio.to_thread(other.get_tuple, config()),
                lambda: other.aget_tuple(config()),
            ):
                with pytest.raises(errors.SteleTimeoutError) as late:
                    await ask()
                assert re.fullmatch(
                    rf"a new connection was not answered within 0.\d+ s: {why} "
                    "start_timeout= is too short",
                    str(late.value),
                )
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_the_store(directory: Path) -> None:
    with SteleStore.from_dir(directory) as store:
        store.put(("users", "1"), "name", {"first": "Ada"})
        item = store.get(("users", "1"), "name")
        assert item is not None and item.value == {"first": "Ada"}
        kill_server(directory)
        assert [i.key for i in store.search(("users",))] == ["name"]
    async with AsyncSteleStore.from_dir(directory) as astore:
        await astore.aput(("users", "1"), "age", {"years": 36})
        kill_server(directory)
        found = await astore.asearch(("users",), filter={"years": {"$gt": 30}})
        assert [i.key for i in found] == ["age"]
        assert await astore.alist_namespaces() == [("users", "1")]
        with pytest.raises(asyncio.InvalidStateError):
            astore.get(("users", "1"), "name")


def test_threads_and_the_rest(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        for i in range(300):
            put(saver, f"a{i:03}")
        put(saver, "b")
        assert len(list(saver.threads(prefix="a"))) == 300
        assert [t["thread"] for t in saver.threads(prefix="b")] == ["b"]
        assert len(list(saver.threads(limit=3))) == 3
        saver.erase(["b"])
        assert list(saver.threads(prefix="b")) == []
        saver.set_ttl("a000", 3600)
        saver.set_ttl("a000", None)
        with pytest.raises(errors.InvalidArgumentError, match="seconds"):
            saver.set_ttl("a000", float("inf"))
        saver.flush()
        assert saver.stats()["commits"] > 300
        saver.prune(["a001"], strategy="delete_all")
        assert saver.get_tuple(config("a001")) is None
        saver.copy_thread("a002", "copy")
        with pytest.raises(errors.ThreadExistsError, match="new thread id"):
            saver.copy_thread("a003", "copy")


def test_an_encrypting_serializer(directory: Path) -> None:
    class Cipher:
        """Reverses bytes: enough to see what is encrypted."""

        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "backwards", plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            assert ciphername == "backwards"
            return ciphertext[::-1]

    serde = EncryptedSerializer(Cipher())
    with SteleSaver.from_dir(directory, serde=serde) as saver:
        stored = put(saver, value={"secret": 1})
        saver.put_writes(stored, [("a", "pending")], "task")
        found = saver.get_tuple(config())
        assert found is not None and found.pending_writes == [("task", "a", "pending")]
        assert found.checkpoint["channel_values"] == {"a": {"secret": 1}}
        assert [t.metadata["step"] for t in saver.list(None, filter={"step": 1})] == [1]
    with SteleSaver.from_dir(directory) as plain, pytest.raises(NotImplementedError):
        plain.get_tuple(config())


# Bad input.


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(errors.DirectoryError, match="does not exist; create the dir"):
        SteleSaver.from_dir(tmp_path / "none" / "data")
    with pytest.raises(errors.DirectoryError, match="does not exist; create it"):
        SteleSaver.from_dir(tmp_path / "data", create=False)
    with pytest.raises(errors.InvalidArgumentError, match="path of the store is empty"):
        SteleSaver.from_dir("")
    with pytest.raises(errors.InvalidArgumentError, match="zero byte"):
        SteleSaver.from_dir("da\0ta")
    with pytest.raises(errors.DirectoryError, match=r"too long.*; check"):
        SteleSaver.from_dir(tmp_path / ("d" * 300))
    for wrong in (-1, float("inf"), float("nan")):
        with pytest.raises(errors.InvalidArgumentError, match="idle_exit"):
            SteleSaver.from_dir(tmp_path / "data", idle_exit=wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("precious")
    with pytest.raises(errors.DirectoryError, match=str(tmp_path)):
        SteleSaver.from_dir(tmp_path).setup()
    with pytest.raises(OSError, match=str(tmp_path)):
        asyncio.run(AsyncSteleSaver.from_dir(tmp_path).asetup())
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]
    with pytest.raises(errors.DirectoryError, match="is a file"):
        SteleSaver.from_dir(tmp_path / "precious.txt")
    with pytest.raises(errors.DirectoryError, match=r"precious.txt is a file; create"):
        SteleSaver.from_dir(tmp_path / "precious.txt" / "data")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(errors.DirectoryError, match="leads to nothing"):
        SteleSaver.from_dir(tmp_path / "link")


def test_one_name_is_no_list_of_names(directory: Path) -> None:
    # A text is a sequence of its letters: erase("12") would erase threads 1 and 2.
    with SteleSaver.from_dir(directory) as saver:
        for thread in ("1", "2", "12"):
            put(saver, thread)
        calls: list[Callable[[], object]] = [
            lambda: saver.erase("12"),
            lambda: saver.prune("12", strategy="delete"),
            lambda: saver.delete_for_runs("12"),
            lambda: asyncio.run(saver.aerase("12")),
            lambda: asyncio.run(saver.aprune("12", strategy="delete")),
            lambda: asyncio.run(saver.adelete_for_runs("12")),
        ]
        for call in calls:
            with pytest.raises(errors.InvalidArgumentError, match="pass a list"):
                call()
        assert [t["thread"] for t in saver.threads()] == ["1", "12", "2"]


def test_a_name_that_is_none(directory: Path) -> None:
    """None is no name: all who forgot theirs would have the thread "None"."""
    with SteleSaver.from_dir(directory) as saver:
        put(saver, "None")
        nobody: Any = None
        for call in (
            lambda: saver.delete_thread(nobody),
            lambda: saver.copy_thread(nobody, "a"),
            lambda: saver.copy_thread("None", nobody),
            lambda: saver.set_ttl(nobody, 5),
            lambda: saver.prune([nobody]),
            lambda: saver.erase([nobody]),
            lambda: saver.delete_for_runs([nobody]),
        ):
            with pytest.raises(errors.InvalidArgumentError, match="None"):
                call()
        assert [thread["thread"] for thread in saver.threads()] == ["None"]


@pytest.mark.parametrize("path", [None, 5, b"store", {}])
def test_a_path_of_another_type(path: Any) -> None:
    for of in (SteleSaver, AsyncSteleSaver, SteleStore, AsyncSteleStore):
        with pytest.raises(errors.InvalidArgumentError) as refused:
            of.from_dir(path)
        assert f"the path of the store is {path!r}" in str(refused.value)
        with pytest.raises(errors.InvalidArgumentError, match="no address of a server"):
            of.from_url(path)


@pytest.mark.parametrize(
    "option",
    [
        {"timeout": "5"},
        {"timeout": timedelta(seconds=5)},
        {"start_timeout": "5"},
        {"max_connections": "16"},
        {"idle_exit": "60s"},
        {"serve_args": "--sync never"},
    ],
)
def test_an_option_of_another_type(directory: Path, option: dict[str, Any]) -> None:
    """Options come from the environment as text, and say what they are."""
    with pytest.raises(errors.InvalidArgumentError) as refused:
        SteleSaver.from_dir(directory, **option)
    assert repr(next(iter(option.values()))) in str(refused.value)


def test_a_ttl_of_another_type(directory: Path) -> None:
    wrong: Any = timedelta(minutes=5)
    with (
        SteleSaver.from_dir(directory) as saver,
        pytest.raises(errors.InvalidArgumentError, match="it is seconds"),
    ):
        saver.set_ttl("a", wrong)
    with (
        SteleStore.from_dir(directory) as store,
        pytest.raises(errors.InvalidArgumentError, match="it is minutes"),
    ):
        store.put(("a",), "k", {}, ttl=wrong)


def test_what_is_connected_is_not_pickled(directory: Path) -> None:
    for connected in (SteleSaver.from_dir(directory), SteleStore.from_dir(directory)):
        with pytest.raises(TypeError, match="each process makes its own"):
            pickle.dumps(connected)


def test_a_directory_that_a_program_has_open(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
        # What other programs see that open the store without serving it.
        said = (directory / "serve.json").read_bytes()
        (directory / "serve.json").unlink()
        other = SteleSaver.from_dir(directory, start_timeout=8, timeout=8)
        with pytest.raises(errors.DirectoryLockedError, match="another program"):
            other.setup()
        (directory / "serve.json").write_bytes(said)
        other.setup()
        other.close()


def test_a_locked_directory_says_so_when_time_is_up(
    directory: Path, tmp_path: Path
) -> None:
    program, started = tmp_path / "stele", tmp_path / "started"
    program.write_text(
        f'#!/bin/sh\n[ -e "{started}" ] && exec sleep 60\ntouch "{started}"\nexit 3\n'
    )
    program.chmod(0o755)
    saver = SteleSaver.from_dir(directory, binary=program, start_timeout=3)
    with pytest.raises(errors.DirectoryLockedError, match="another program"):
        saver.setup()


def test_a_server_that_starts_for_longer_than_a_call_takes(
    directory: Path, tmp_path: Path
) -> None:
    program, starts, go = tmp_path / "stele", tmp_path / "starts", tmp_path / "go"
    program.write_text(
        f'''#!/bin/sh
echo >>"{starts}"
while ! [ -e "{go}" ]; do sleep 0.01; done
exec "{find_binary()}" "$@"
'''
    )
    program.chmod(0o755)
    with_time = SteleSaver.from_dir(directory, binary=program)
    saver = SteleSaver.from_dir(directory, binary=program, timeout=0.3)
    with pytest.raises(errors.SteleTimeoutError, match="no server was reached"):
        put(saver)
    go.touch()
    while not (directory / "serve.json").exists():
        time.sleep(0.01)
    put(with_time)
    assert len(starts.read_bytes()) == 1, "the first call left it to start"
    saver.close()
    with_time.close()


def test_no_binary(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.BinaryNotFoundError, match="go install"):
        SteleSaver.from_dir(directory, binary="no-such-program").setup()
    monkeypatch.setenv("STELE_BINARY", "no-such-program")
    with pytest.raises(errors.BinaryNotFoundError):
        SteleSaver.from_dir(directory).setup()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("name", ["serve.json", "serve.token"])
@pytest.mark.parametrize("what", ["a pipe", "a link to what has no end"])
def test_something_else_has_the_name_of_a_file(
    directory: Path, what: str, name: str
) -> None:
    """Nobody waits for it, nor reads it to an end. The server puts its own there."""
    directory.mkdir(exist_ok=True)
    if name == "serve.token":
        said = {"address": "tcp:127.0.0.1:1", "token_file": name}
        (directory / "serve.json").write_text(json.dumps(said))
    if what == "a pipe":
        os.mkfifo(directory / name)
    else:
        os.symlink("/dev/zero", directory / name)
    source = (
        "import sys; from langgraph.checkpoint.stele import SteleSaver\n"
        "SteleSaver.from_dir(sys.argv[1], idle_exit=1).setup()"
    )
    run(source, directory)


@pytest.mark.parametrize("named", ["an option", "the environment", "PATH"])
def test_a_binary_beside_the_program(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """A relative path is one of this process: the server starts in another place."""
    os.symlink(find_binary(), tmp_path / "stele")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STELE_BINARY", raising=False)
    option: dict[str, Any] = {}
    if named == "an option":
        option["binary"] = "./stele"
    elif named == "the environment":
        monkeypatch.setenv("STELE_BINARY", "./stele")
    else:
        monkeypatch.setenv("PATH", ".", prepend=os.pathsep)
        monkeypatch.setenv("STELE_BINARY", "stele")
    with SteleSaver.from_dir(directory, **option) as saver:
        put(saver)


@pytest.mark.skipif(sys.platform == "win32", reason="it may not be removed there")
def test_the_working_directory_is_gone(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
    with pytest.raises(errors.DirectoryError, match="begins with /"):
        SteleSaver.from_dir("data")


def test_a_program_that_is_no_stele(directory: Path) -> None:
    false = shutil.which("false")
    with pytest.raises(errors.ServerStartError, match="code 1"):
        SteleSaver.from_dir(directory, binary=false).setup()


def test_a_value_over_the_limit(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        limit = saver._client._pool.hello().max_frame
        put(saver)
        advice = "Keep large data elsewhere"
        for size, said in (
            (limit + 1, f"the server takes {limit}"),
            (limit - (1 << 20), "the limit is 67108864"),
        ):
            with pytest.raises(errors.TooLargeError, match=f"{said}.*{advice}"):
                put(saver, value=b"x" * size)
            with pytest.raises(errors.TooLargeError, match=f"{said}.*{advice}"):
                put(saver, user="x" * size)
            with SteleStore.from_dir(directory) as store:
                with pytest.raises(errors.TooLargeError, match=f"{said}.*{advice}"):
                    store.put(("a",), "k", {"x": "x" * size})
                assert store.get(("a",), "k") is None
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 1}
        assert len(list(saver.list(config()))) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("no mount")
    command = [mount, "-t", "tmpfs", "-o", "size=48m", "stele", str(tmp_path)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        yield tmp_path
    finally:
        end_server(tmp_path / "d")
        subprocess.run([umount, "-l", str(tmp_path)], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Fills a file system until so many bytes are free. Returns the file to remove."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="space"):
        while True:
            file.write(b"x" * (1 << 20))
            file.flush()
    os.truncate(ballast, ballast.stat().st_size - leave)
    return ballast


async def test_a_full_disk(small_disk: Path) -> None:
    directory = small_disk / "d"
    with SteleSaver.from_dir(directory) as saver, SteleStore.from_dir(directory) as st:
        put(saver, value="before")
        ballast = fill(small_disk)
        done = 1
        with pytest.raises(errors.DiskFullError, match="Make room"):
            while True:
                put(saver, value=os.urandom(1 << 20))
                done += 1
        with pytest.raises(errors.DiskFullError):
            await saver.aput_writes(
                config(checkpoint_id="1"), [("a", os.urandom(1 << 20))], "task"
            )
        with pytest.raises(errors.DiskFullError):
            st.put(("a",), "k", {"a": os.urandom(1 << 20)})
        assert len(list(saver.list(config()))) == done
        ballast.unlink()
        put(saver, value="after")
        assert len(list(saver.list(config()))) == done + 1
    assert stele("verify", directory).returncode == 0


@pytest.mark.parametrize("removal", ["delete_thread", "delete items"])
def test_deleting_clears_a_full_disk(small_disk: Path, removal: str) -> None:
    """A call may be refused while space is given back; it works when tried again."""
    directory = small_disk / "d"
    with SteleSaver.from_dir(directory) as saver, SteleStore.from_dir(directory) as st:

        def add(n: int) -> None:
            if removal == "delete items":
                value = {"a": base64.b64encode(os.urandom(200 << 10)).decode()}
                st.put(("a", str(n % 8)), str(n), value)
            else:
                put(saver, f"t{n % 8}", os.urandom(200 << 10))

        def in_time(call: Callable[[], object]) -> None:
            deadline = time.monotonic() + 60
            while True:
                try:
                    call()
                    return
                except errors.DiskFullError:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)

        done = 0
        with pytest.raises(errors.DiskFullError, match="delete threads or items"):
            while True:
                add(done)
                done += 1
        if removal == "delete items":
            for n in range(done):
                in_time(lambda n=n: st.delete(("a", str(n % 8)), str(n)))
        else:
            for n in range(8):
                in_time(lambda n=n: saver.delete_thread(f"t{n}"))
        for n in range(8):
            in_time(lambda n=n: add(done + n))
    assert stele("verify", directory).returncode == 0


async def test_a_disk_that_is_full_in_the_middle_of_a_write(small_disk: Path) -> None:
    """The server has room to begin with, and the system has none to end with."""
    directory = small_disk / "d"
    async with AsyncSteleSaver.from_dir(directory) as asaver:
        with SteleSaver.from_dir(directory) as saver:
            put(saver, value="before")
            ballast = fill(small_disk, leave=12 << 20)
            large = os.urandom(20 << 20)
            for _ in range(3):
                with pytest.raises(errors.DiskFullError, match="Make room"):
                    put(saver, value=large)
                with pytest.raises(errors.DiskFullError, match="Make room"):
                    await asaver.aput_writes(
                        config(checkpoint_id="1"), [("a", large)], "task"
                    )
            pid = server_pid(directory)
            put(saver, value="between")
            ballast.unlink()
            put(saver, value=large)
            values = [t.checkpoint["channel_values"]["a"] for t in saver.list(config())]
            assert values == [large, "between", "before"]
            assert server_pid(directory) == pid, "no server died of it"
    assert stele("verify", directory).returncode == 0


def test_a_graph_on_a_full_disk(small_disk: Path) -> None:
    """It stops with what to do, and goes on where it was when there is room."""

    class State(TypedDict):
        log: Annotated[list[str], operator.add]

    large = os.urandom(1 << 20).hex()
    ballast: list[Path] = []

    def first(state: State) -> State:
        if not ballast:
            ballast.append(fill(small_disk))
        return {"log": [large]}

    def second(state: State) -> State:
        return {"log": ["second"]}

    directory = small_disk / "d"
    with SteleSaver.from_dir(directory) as saver:
        graph = (
            StateGraph(State)
            .add_sequence([first, second])
            .add_edge(START, "first")
            .compile(checkpointer=saver)
        )
        thread: Any = config()
        with pytest.raises(errors.DiskFullError, match="Make room"):
            graph.invoke({"log": ["input"]}, thread, durability="sync")
        state = graph.get_state(thread)
        assert (state.values, state.next) == ({"log": ["input"]}, ("first",))
        ballast[0].unlink()
        assert graph.invoke(None, thread) == {"log": ["input", large, "second"]}


def test_tokens_and_tcp(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STELE_TOKEN", "a-token-of-some-length")
    token = tmp_path / "token"
    token.write_text("a-token-of-some-length\n")
    token.chmod(0o600)
    with SteleSaver.from_dir(
        directory, serve_args=["--listen=tcp:127.0.0.1:0", f"--token-file={token}"]
    ):
        said = json.loads((directory / "serve.json").read_bytes())
        url = said["address"]
        assert url.startswith("tcp:127.0.0.1:")
        with SteleSaver.from_url(url, token="a-token-of-some-length") as saver:
            put(saver)
        with SteleSaver.from_url(url) as saver:
            assert saver.get_tuple(config()) is not None
        for wrong in ("a-token-of-some-lengtH", "", "é", "x" * 10_000):
            with pytest.raises(errors.AuthError, match="token"):
                SteleSaver.from_url(url, token=wrong).setup()
            with pytest.raises(PermissionError):
                asyncio.run(AsyncSteleSaver.from_url(url, token=wrong).asetup())


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("answers", [True, False])
def test_who_listens_where_a_server_was_killed_learns_nothing(
    directory: Path, answers: bool, blocking: bool
) -> None:
    heard = bytearray()

    def stranger() -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    connection.settimeout(60)
                    heard.extend(hello := connection.recv(1 << 16))
                    asked = ormsgpack.unpackb(hello[4:])[1]
                    welcome = {"protocol": 1, "call_slots": 1, "proof": "x" * 64}
                    refusal = {"code": "auth", "message": "the token is wrong"}
                    said = (None, welcome) if answers else (refusal, None)
                    answer = ormsgpack.packb([1, asked, *said])
                    connection.sendall(len(answer).to_bytes(4, "big") + answer)
                    while more := connection.recv(1 << 16):
                        heard.extend(more)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=stranger)
        thread.start()
        directory.mkdir(exist_ok=True)
        (directory / "serve.token").write_text("a-token-that-nobody-learns\n")
        said = {"protocol": 1, "address": f"tcp:127.0.0.1:{listener.getsockname()[1]}"}
        said |= {"pid": 1, "token_file": "serve.token", "proof": True}
        (directory / "serve.json").write_text(json.dumps(said))
        if blocking:
            with SteleSaver.from_dir(directory) as saver:
                put(saver)
                assert saver.get_tuple(config()) is not None
        else:
            asyncio.run(set_up(directory))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert b"challenge" in heard
    assert b"a-token-that-nobody-learns" not in heard
    assert b"put" not in heard


def test_proofs_are_those_of_the_server() -> None:
    """Go and JavaScript have the same texts in a test."""
    address = Address("tcp", "", "127.0.0.1", 1234, "token", True)
    for side, want in {
        "client": "07d624356bada1dfb1028eb91382e56e2c6a8e680a56e6d31850d6508cad21f4",
        "server": "f13e10306447850ff810ac22b9dfba58a2cbd0a00cc27feff7aeb68524059af8",
    }.items():
        assert prove(side, address, "challenge") == want


def test_an_empty_token_proves_nothing(directory: Path) -> None:
    """A power failure may leave the file empty, and anybody knows no token."""
    directory.mkdir(exist_ok=True)
    token = directory / "serve.token"
    said = {"protocol": 1, "address": "tcp:127.0.0.1:1", "token_file": token.name}
    (directory / "serve.json").write_text(json.dumps(said | {"proof": True}))
    endpoint = Directory(
        directory,
        create=True,
        idle_exit=0,
        start_timeout=1,
        serve_args=(),
        binary=None,
    )
    token.write_text("")
    assert endpoint.address() is None
    token.write_text("known")
    assert endpoint.address() is not None
    (directory / "elsewhere").mkdir()
    for name in ("serve.json", "serve.token"):  # links lead there, as in Go
        (directory / name).rename(directory / "elsewhere" / name)
        os.symlink(f"elsewhere/{name}", directory / name)
    assert endpoint.address() is not None


async def set_up(directory: Path) -> None:
    async with AsyncSteleSaver.from_dir(directory) as saver:
        await saver.asetup()
        assert await saver.aget_tuple(config()) is None


def test_the_binary_is_a_program_too(directory: Path) -> None:
    with SteleSaver.from_dir(directory) as saver:
        put(saver)
        done = subprocess.run(
            [sys.executable, "-m", "langgraph.checkpoint.stele", "verify", directory],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert stele("verify", directory).returncode == 0
