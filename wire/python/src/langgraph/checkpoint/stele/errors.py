"""The exceptions of the client.

Every one is a `SteleError` and says in its text what to do. Those with a
counterpart among Python's own exceptions are that too, so that
``except TimeoutError`` works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "AncestorCycleError",
    "AuthError",
    "BinaryNotFoundError",
    "BudgetError",
    "CancelledError",
    "ConflictError",
    "CorruptError",
    "DirectoryError",
    "DirectoryLockedError",
    "DiskFullError",
    "EraseUnfinishedError",
    "InternalError",
    "InvalidArgumentError",
    "LeaseLostError",
    "NotFoundError",
    "PoolTimeoutError",
    "ProtocolError",
    "ReadOnlyError",
    "ServerStartError",
    "SteleConnectionError",
    "SteleError",
    "SteleTimeoutError",
    "ThreadDeletedError",
    "ThreadExistsError",
    "ThreadOwnedError",
    "TooLargeError",
    "UnavailableError",
    "UnknownOutcomeError",
    "UnsupportedError",
    "VersionError",
]


class SteleError(Exception):
    """What every exception of the client is.

    Attributes:
        message: What happened, without the advice.
        details: What the server told beside the message, such as the thread.
        code: The protocol's code; empty for errors that the client found itself.
        advice: What to do about it.
    """

    code: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message}. {self.advice}" if self.advice else self.message


class InvalidArgumentError(SteleError, ValueError):
    """An argument is wrong. Nothing was written."""

    code = "invalid"


class NotFoundError(SteleError, LookupError):
    """The checkpoint, thread or item that the call needs is not there."""

    code = "not_found"


class ConflictError(SteleError):
    """The head of the thread is another one than expected. Nothing was written."""

    code = "conflict"
    advice = "Read the thread again and decide anew"


class ThreadOwnedError(SteleError):
    """Another program owns the thread."""

    code = "owned"
    advice = "Wait until its lease ends"


class LeaseLostError(SteleError):
    """The lease on the thread is lost. Nothing was written."""

    code = "fenced"
    advice = "Own the thread again before you write to it"


class ThreadDeletedError(SteleError):
    """The thread was deleted while it was written to. Nothing was written."""

    code = "thread_deleted"
    advice = "Start the thread anew: a run that began before the deletion cannot go on"


class ThreadExistsError(SteleError):
    """The thread to copy to has checkpoints already. Nothing was written."""

    code = "thread_exists"
    advice = "Copy to a new thread id, or delete that thread first"


class TooLargeError(SteleError, ValueError):
    """A value, or a call, is over a limit of the server. Nothing was written."""

    code = "too_large"
    advice = (
        "Keep large data elsewhere and its address here; divide a large batch, and "
        "shorten a long name"
    )


class BudgetError(SteleError):
    """A budget cannot be kept."""

    code = "budget"
    advice = "Raise the budget, or let the store cut threads that are waiting"


class DiskFullError(SteleError, OSError):
    """The disk is full. Nothing was written, and nothing that was there is lost."""

    code = "disk_full"
    advice = (
        "Make room, or delete threads or items, whose space comes back by itself; then "
        "the store takes writes again"
    )


class ReadOnlyError(SteleError):
    """The store was opened for reading, or follows another one."""

    code = "read_only"
    advice = (
        "Ask the server that has it open for writing; if this one follows another, "
        "that is the leader, and with `--take-over` this one some time after the "
        "leader is lost"
    )


class UnknownOutcomeError(SteleError):
    """The store does not know whether the call had an effect."""

    code = "unknown_outcome"
    advice = (
        "Call flush() of a saver: when it returns, what can be read is there for good"
    )


class CorruptError(SteleError):
    """Stored bytes are damaged. Nothing damaged is returned."""

    code = "corrupt"
    advice = "Run `stele verify` on the directory, and restore it from a backup"


class AncestorCycleError(SteleError):
    """A checkpoint is its own ancestor, so its delta channels have no history."""

    code = "ancestor_cycle"
    advice = "Put the checkpoint again with another parent, or delete the thread"


class UnavailableError(SteleError):
    """The store takes no more writes until its server has been started again."""

    code = "unavailable"
    advice = (
        "Look at the disk. The server ends by itself and the next call starts another"
    )


class ClosingError(SteleError):
    """The server ends. The client asks again by itself; nobody sees this one."""

    code = "closing"


class EraseUnfinishedError(SteleError):
    """The threads are deleted; the rest of their bytes are erased later."""

    code = "erase_unfinished"
    advice = "Call erase() again until it succeeds"


class UnsupportedError(SteleError, NotImplementedError):
    """This store does not have the method."""

    code = "unsupported"
    advice = "The stores that `stele serve` opens differ; a directory has all methods"


class AuthError(SteleError, PermissionError):
    """The token is missing or wrong."""

    code = "auth"
    advice = "Pass the server's token: from_url(url, token=...), or set STELE_TOKEN"


class VersionError(SteleError):
    """Server and client speak different versions of the protocol."""

    code = "version"
    advice = "Install the same release of stele for both, then end the old server"


class CancelledError(SteleError):
    """The call was cancelled and had no effect."""

    code = "cancelled"


class InternalError(SteleError):
    """Anything else that went wrong in the server."""

    code = "internal"
    advice = "Look at the server's log"


class ProtocolError(SteleError):
    """A message could not be understood, or is not one that was asked for."""

    code = "bad_request"
    advice = (
        "Check that a stele server listens at the address, and the types of the "
        "arguments; if they are right, client and server do not fit: install the same "
        "release of both"
    )


class SteleConnectionError(SteleError, ConnectionError):
    """The server cannot be reached."""

    advice = "Check that it runs and that the address is right"


class SteleTimeoutError(SteleError, TimeoutError):
    """The server did not answer in time.

    A call that writes may have had its effect. To make it again is safe for puts
    and writes: the same checkpoint id stores the same thing once.
    """


class PoolTimeoutError(SteleTimeoutError):
    """All connections were in use for too long."""

    advice = "Raise max_connections=, or close iterators of list() that you do not read"


class ServerStartError(SteleError, OSError):
    """`stele serve` could not be started."""


class DirectoryError(ServerStartError):
    """The directory does not exist, or holds something else than a store."""


class DirectoryLockedError(ServerStartError):
    """A program has the directory open and does not serve it."""

    advice = "End the program that has the store open, or let it serve the store"


class BinaryNotFoundError(ServerStartError):
    """There is no `stele` to start."""

    advice = (
        "Install a wheel of langgraph-checkpoint-stele for this platform, or put "
        "`stele` on PATH: `go install ./cmd/stele` in a checkout of stele"
    )


_BY_CODE: dict[str, type[SteleError]] = {
    cls.code: cls for cls in SteleError.__subclasses__() if cls.code
}
_BY_CODE["unknown_method"] = UnsupportedError

# What the server says in the words of Go programs, by field and reason.
_IN_OUR_WORDS: dict[Any, str] = {
    (
        "index",
        "the store has no index",
    ): "the store has no vectors to find a text by: leave out query, and search "
    "by filter",
}


def late(what: str, option: str = "timeout") -> SteleTimeoutError:
    """The exception when something took longer than an option allows."""
    return SteleTimeoutError(
        f"{what}: the server is stopped or busy, or {option}= is too short"
    )


def from_answer(error: Any) -> SteleError:
    """The exception for the error of an answer."""
    if not isinstance(error, dict):
        return ProtocolError(f"the server answered an error of another form: {error!r}")
    code = error.get("code")
    message = str(error.get("message") or code)
    details = error.get("details")
    if code == "invalid" and isinstance(details, dict):
        told = details.get("field"), details.get("reason")
        message = _IN_OUR_WORDS.get(told, message)
    cls = _BY_CODE.get(code) if isinstance(code, str) else None
    if cls is None:
        return InternalError(f"{code}: {message}", error.get("details"))
    return cls(message, error.get("details"))
