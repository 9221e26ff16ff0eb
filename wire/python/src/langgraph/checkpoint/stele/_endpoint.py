"""Where a server is, and how one is started.

The life of the server of a directory, as from_dir has it: whoever finds no server
starts one, and the lock of the directory lets one of them live. Clients never talk
to each other. A server is a process of its own, in a session of its own: it
survives who started it, and ends when nobody was connected for `idle_exit` seconds.
A client that loses its server looks for one again, and starts one again.
"""

from __future__ import annotations

import asyncio
import errno
import json
import numbers
import os
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, Protocol

from langgraph.checkpoint.stele._wire import Hello
from langgraph.checkpoint.stele.errors import (
    BinaryNotFoundError,
    DirectoryError,
    DirectoryLockedError,
    InvalidArgumentError,
    ServerStartError,
    SteleConnectionError,
)

_LOCKED: Final = 3  # exit code of `stele serve` if the directory is open elsewhere
_POLL: Final = 0.002
_PUT_BACK: Final = "put it back, or make a new saver or store"


class Address(NamedTuple):
    """Where to connect, and with what."""

    kind: Literal["unix", "tcp", "tls"]
    path: str  # of a unix socket
    host: str
    port: int
    token: str | None
    proves: bool = False  # the server proves that it knows the token

    def __str__(self) -> str:
        if self.kind == "unix":
            return f"unix:{self.path}"
        return f"{self.kind}:{self.host}:{self.port}"


class Endpoint(Protocol):
    """Where a client finds its server."""

    tls: ssl.SSLContext | None
    start_timeout: float
    start_option: str  # the name of the option that says so

    def address(self) -> Address | None:
        """Where the server is, as far as one can tell; None if there is none."""

    def start(self, deadline: float, until: float) -> None:
        """Have a server, if that is for this client to do.

        Returns when there is one, when somebody else starts one, or at the time until.
        A server that is not ready at the deadline is ended.
        """

    def greeted(self, hello: Hello) -> None:
        """Refuse a server that has another store than the one used before."""

    def unreachable(self, cause: Exception | None) -> Exception:
        """The exception when the server could not be reached in time."""


def parse_url(url: str, token: str | None) -> Address:
    """The address in a URL: unix:PATH, tcp:HOST:PORT or tls:HOST:PORT.

    Two slashes after the first colon are allowed.
    """
    # Without types, or from the environment, it may be missing.
    kind, colon, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    rest = rest.removeprefix("//")
    if colon and kind == "unix" and rest:
        return Address("unix", rest, "", 0, token)
    if colon and kind in ("tcp", "tls"):
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return Address(
                "tcp" if kind == "tcp" else "tls", "", host, int(port), token
            )
    raise InvalidArgumentError(
        f"{url!r} is no address of a server; write unix:PATH, tcp:HOST:PORT or "
        "tls:HOST:PORT"
    )


class Remote:
    """A server that somebody else runs."""

    start_option = "connect_timeout"

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        tls: ssl.SSLContext | None,
        connect_timeout: float,
    ) -> None:
        if token is None:
            token = os.environ.get("STELE_TOKEN") or None
        self._address = parse_url(url, token)
        self.tls = tls
        if tls is None and self._address.kind == "tls":
            self.tls = ssl.create_default_context()
        self.start_timeout = connect_timeout

    def address(self) -> Address:
        return self._address

    def start(self, deadline: float, until: float) -> None:
        pass

    def greeted(self, hello: Hello) -> None:
        pass

    def unreachable(self, cause: Exception | None) -> Exception:
        return SteleConnectionError(f"no server answers at {self._address}: {cause}")


def is_number(value: object) -> bool:
    """Whether an option is a number: from the environment it comes as text."""
    return isinstance(value, numbers.Real)


def _mode(path: Path) -> int | None:
    """What lies there, by one look; None if nothing does."""
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    except ValueError:  # it has U+0000
        return None


def _read(path: Path) -> bytes:
    """The beginning of a regular file.

    Of something else in its place, reading may have no end, and opening may wait.
    """
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
        return file.read(1 << 16)


class Directory:
    """The server of a directory, which is started when there is none."""

    tls: ssl.SSLContext | None = None
    start_option = "start_timeout"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool,
        idle_exit: float,
        start_timeout: float,
        serve_args: Sequence[str],
        binary: str | os.PathLike[str] | None,
    ) -> None:
        try:
            self._path = Path(path)
        except TypeError:
            raise InvalidArgumentError(
                f"the path of the store is {path!r}; name its directory by a str"
            ) from None
        if not os.fspath(path):
            raise InvalidArgumentError(
                "the path of the store is empty; name its directory, or . for this one"
            )
        if "\0" in os.fsdecode(path):
            raise InvalidArgumentError(f"{path!r} has a zero byte, and no path has one")
        if not (is_number(idle_exit) and 0 <= idle_exit <= threading.TIMEOUT_MAX):
            raise InvalidArgumentError(
                f"idle_exit is {idle_exit!r}; it is seconds, or 0 for a server that "
                "stays"
            )
        if isinstance(serve_args, (str, bytes)):  # a sequence of letters
            raise InvalidArgumentError(
                f"serve_args is {serve_args!r}; pass a list of arguments, such as "
                "['--sync', 'never']"
            )
        self.start_timeout = start_timeout
        self._create = create
        self._idle_exit = idle_exit
        self._serve_args = tuple(serve_args)
        self._binary = binary
        self._starting = threading.Lock()
        self._locked = False
        # the last server that was started here
        self._started: subprocess.Popen[bytes] | None = None
        self._seen = False  # there has been a store
        self._store = ""  # its id
        self._resolved = False
        # To look at a path stops the loop. There it is done when the path is used.
        if not _in_event_loop():
            self._resolve()
            self._check()

    @property
    def path(self) -> Path:
        """The absolute path: the working directory may change between calls."""
        self._resolve()
        return self._path

    def _resolve(self) -> None:
        if not self._resolved:
            try:
                self._path = Path(os.path.abspath(self._path))
            except FileNotFoundError as error:  # there is no working directory
                raise DirectoryError(
                    f"{self._path} is in the working directory, which was removed; "
                    "name a path that begins with /"
                ) from error
            self._resolved = True

    def after_fork(self) -> None:
        """Forget what another thread of the parent was doing."""
        self._starting = threading.Lock()

    def _check(self) -> None:
        """Refuse what no server could be started on, in words about paths."""
        try:
            wrong = self._wrong()
        except OSError as error:
            wrong = (
                f"{self.path} cannot be looked at ({error.strerror}); check the path"
            )
        if wrong is not None:
            raise DirectoryError(wrong)

    def _wrong(self) -> str | None:
        path = self.path
        mode = _mode(path)  # another client may create it at any moment
        if mode is not None and stat.S_ISDIR(mode):
            self._seen = True
            # A store that was restored here has no LOCK before it is opened.
            if self._store and not any(path.glob("MANIFEST-*")):
                return f"the store in {path} is gone; {_PUT_BACK}"
            return None
        if mode is not None:
            return f"{path} is a file; name a directory for the store"
        if path.is_symlink():
            return f"{path} is a link that leads to nothing; mend it, or remove it"
        if self._seen:  # what was moved away is not replaced by an empty store
            return f"{path} is gone; {_PUT_BACK}"
        if not self._create:
            return f"{path} does not exist; create it, or leave out create=False"
        mode = _mode(path.parent)
        if mode is not None and stat.S_ISDIR(mode):
            return None
        what = "is a file" if mode is not None else "does not exist"
        return f"{path.parent} {what}; create the directory, or check the path {path}"

    def address(self) -> Address | None:
        said = self._said()
        if said is None:
            return None
        address, token_file = said.get("address"), said.get("token_file")
        if not isinstance(address, str):
            return None
        token = None
        if token_file:
            try:
                token = _read(self.path / str(token_file)).decode("ascii").strip()
            except (OSError, ValueError):
                return None  # written before, or removed after, what we have read
        try:
            found = parse_url(address, token)
        except InvalidArgumentError:
            return None
        if found.kind == "unix":
            return found._replace(path=str(self.path / found.path))
        if token is None:  # the operator's, who said where the server listens
            return found._replace(token=os.environ.get("STELE_TOKEN") or None)
        proves = said.get("proof") is True
        if proves and not token:  # a power failure may leave the file empty
            return None  # anybody can prove to know no token
        return found._replace(proves=proves)

    def _said(self) -> Mapping[str, Any] | None:
        """What serve.json says; None if it is not there, or not whole yet."""
        try:
            said = json.loads(_read(self.path / "serve.json"))
        except (OSError, ValueError):
            return None
        self._seen = True
        return said if isinstance(said, dict) else None

    def greeted(self, hello: Hello) -> None:
        if self._store and hello.store_id and hello.store_id != self._store:
            raise DirectoryError(
                f"{self.path} holds another store than the one that was used, which "
                f"was moved away or replaced; {_PUT_BACK}"
            )
        self._store = hello.store_id or self._store

    def start(self, deadline: float, until: float) -> None:
        # Threads of one process start one server. Processes leave it to the lock.
        if not self._starting.acquire(timeout=max(0.0, until - time.monotonic())):
            return
        try:
            self._check()
            self._run(deadline, until)
        finally:
            self._starting.release()

    def _run(self, deadline: float, until: float) -> None:
        locked, self._locked = self._locked, False
        with self._log() as log:
            process = self._started = self._spawn(log)
            while True:
                said = self._said()
                if said is not None and said.get("pid") == process.pid:
                    break
                code = process.poll()
                if code == _LOCKED:
                    self._locked = True  # a server that starts, or something else
                    return
                if code is not None and code <= 0:
                    # One that was killed, or told to end, says nothing about the
                    # directory: another one is started.
                    return
                if code is not None:
                    raise self._failed(code, log)
                if time.monotonic() > deadline:
                    process.terminate()
                    process.wait()
                    self._locked = locked
                    if locked:
                        return  # the attempts before this one have said why
                    raise self._failed(None, log)
                if time.monotonic() > until:
                    break  # it goes on starting, for the next call
                time.sleep(_POLL)
        _children.append(process)

    def _log(self) -> IO[bytes]:
        """A file without a name, for what the server says.

        It is in the directory of the store where no other can be written to: the root
        of a container may be read-only.
        """
        try:
            return tempfile.TemporaryFile()
        except OSError:
            pass
        try:
            self.path.mkdir(mode=0o750, exist_ok=True)
            return tempfile.TemporaryFile(dir=self.path, prefix="serve.start-")
        except OSError as error:
            raise DirectoryError(
                f"{self.path} cannot be written to ({error.strerror}); check who may"
            ) from error

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        _children[:] = [child for child in _children if child.poll() is None]
        binary = find_binary(self._binary)
        command = [
            binary,
            "serve",
            str(self.path),
            f"--idle-exit={self._idle_exit:.3f}s",
            *self._serve_args,
        ]
        try:
            return _Detached(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.path.parent,
                close_fds=True,
                start_new_session=True,
                creationflags=_FLAGS,
            )
        except OSError as error:
            raise ServerStartError(f"{binary} cannot be started: {error}") from error

    def _failed(self, code: int | None, log: IO[bytes]) -> ServerStartError:
        log.seek(0)
        text = log.read(1 << 20).decode("utf-8", "replace").strip()
        said = text[-2000:] or "it said nothing"
        if code is None:
            return ServerStartError(
                f"stele serve {self.path} was not ready within "
                f"{self.start_timeout:g} s; raise start_timeout=: {said}"
            )
        return DirectoryError(f"stele serve {self.path} ended with code {code}: {said}")

    def unreachable(self, cause: Exception | None) -> Exception:
        if self._locked:
            return DirectoryLockedError(
                f"another program has {self.path} open, and no server answers there"
            )
        code = None if self._started is None else self._started.poll()
        why = cause if code is None else f"stele serve ended with code {code}"
        return SteleConnectionError(f"the server of {self.path} does not answer: {why}")


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Detached(subprocess.Popen[bytes]):
    """A process that is meant to outlive its parent, and no leak when it does."""

    def __del__(self, *args: Any, **kwargs: Any) -> None:
        pass


# Servers that this process has started. They are asked for their end only so that a
# dead one does not stay a zombie.
_children: list[_Detached | subprocess.Popen[bytes]] = []

_FLAGS: Final = (
    0x00000008 | 0x00000200  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP
    if sys.platform == "win32"
    else 0
)


def find_binary(given: str | os.PathLike[str] | None = None) -> str:
    """The absolute path of `stele`: the server is started in another directory.

    That is the one given, $STELE_BINARY, the wheel's, or the one on PATH.
    """
    if given is None:
        given = os.environ.get("STELE_BINARY") or None
    if given is not None:
        found = shutil.which(os.fspath(given))
        if found is None:
            raise BinaryNotFoundError(f"{os.fspath(given)} is no program")
        return os.path.abspath(found)
    name = "stele.exe" if sys.platform == "win32" else "stele"
    own = Path(__file__).with_name("_bin") / name
    if own.exists():
        return str(own)
    found = shutil.which("stele")
    if found is None:
        raise BinaryNotFoundError(
            "this install of langgraph-checkpoint-stele has no binary of stele, and "
            "PATH has none"
        )
    return os.path.abspath(found)


def warn_without_binary() -> None:
    """Say when the package is imported what would else fail at the first call."""
    try:
        find_binary()
    except BinaryNotFoundError as error:
        warnings.warn(
            f"{error}. Until then from_dir can start no server, and from_url works",
            RuntimeWarning,
            stacklevel=3,
        )
