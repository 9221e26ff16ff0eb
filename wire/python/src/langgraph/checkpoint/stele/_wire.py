"""Messages and frames, as docs/wire.md of stele specifies them.

Nothing here does I/O: the blocking and the asyncio client share it.
"""

from __future__ import annotations

import hmac
import platform
import secrets
from typing import TYPE_CHECKING, Any, Final

import ormsgpack

from langgraph.checkpoint.stele.errors import (
    InvalidArgumentError,
    ProtocolError,
    TooLargeError,
    VersionError,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.stele._endpoint import Address

PROTOCOL: Final = 1
VERSION: Final = "0.1.0"
CLIENT: Final = (
    f"langgraph-checkpoint-stele/{VERSION} python/{platform.python_version()}"
)

# A server says its own limit in the answer to hello. No other is believed.
MAX_FRAME: Final = 128 << 20

REQUEST: Final = 0
RESPONSE: Final = 1
NOTIFICATION: Final = 2

# Names that are not UTF-8, which Go programs can store, arrive as bytes, also as keys.
_UNPACK: Final = ormsgpack.OPT_NON_STR_KEYS

Params = dict[str, Any]
Message = list[Any]


# What callers call a parameter.
_CALLERS: Final = {
    "thread": "thread_id",
    "ns": "checkpoint_ns",
    "id": "checkpoint_id",
    "to": "the id of the target thread",
}


def _half(name: str, value: Any) -> str | None:
    """The name of a text in value that has half of a character."""
    if isinstance(value, str):
        return name if any("\ud800" <= c <= "\udfff" for c in value) else None
    if isinstance(value, dict):
        keys = (_half(f"a name in {name}", key) for key in value)
        inner = (_half(str(key), part) for key, part in value.items())
        return next(filter(None, (*keys, *inner)), None)
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_half(name, part) for part in value)), None)
    return None


def typed(serde: SerializerProtocol, name: str, value: Any) -> tuple[str, bytes]:
    """A value that the store reads, serialized.

    LangGraph's serializer makes a question mark of half of a character without a word.
    """
    try:
        kind, data = serde.dumps_typed(value)
    except (TypeError, ValueError) as error:  # so it is for the name of a field
        _refuse_half(name, value, error)
        raise
    if b"?" in data and kind.startswith("msgpack"):
        _refuse_half(name, value, None)
    return kind, data


def _refuse_half(name: str, value: Any, cause: Exception | None) -> None:
    try:
        path = _half_at(name, value)
    except RecursionError:  # the serializer says so in its words
        return
    if path:
        raise InvalidArgumentError(
            f"{path} has half of a character (a lone surrogate), which is no text; "
            "mend it where it is decoded, or leave it out"
        ) from cause


def _half_at(path: str, value: Any) -> str | None:
    """The path of a text in value that has half of a character."""
    if isinstance(value, str):
        return path if not value.isascii() and _half(path, value) else None
    if isinstance(value, dict):
        for key, part in value.items():
            if _half(path, key):
                return f"a name in {path}"
            if found := _half_at(f"{path}.{key}", part):
                return found
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, part in enumerate(value):
            if found := _half_at(f"{path}[{i}]", part):
                return found
    return None


def request(number: int, method: str, params: Params, max_frame: int) -> bytes:
    """The frame of a request."""
    try:
        body = ormsgpack.packb((REQUEST, number, method, (params,)))
    except (TypeError, ValueError) as error:
        named = {_CALLERS.get(name, name): value for name, value in params.items()}
        if half := _half(method, named):
            raise InvalidArgumentError(
                f"{half} has half of a character (a lone surrogate), which is no text; "
                "mend it where it is decoded, or leave it out"
            ) from error
        raise InvalidArgumentError(
            f"an argument of {method} cannot be sent: {error}"
        ) from error
    if len(body) > max_frame:
        raise TooLargeError(
            f"a call of {method} has {len(body)} bytes, and the server takes "
            f"{max_frame}"
        )
    return len(body).to_bytes(4, "big") + body


def notification(method: str, params: Params) -> bytes:
    """The frame of a notification."""
    body = ormsgpack.packb((NOTIFICATION, method, (params,)))
    return len(body).to_bytes(4, "big") + body


def decode(body: bytes | bytearray | memoryview) -> Message:
    """The message of a frame's body: a response, or a notification."""
    try:
        message = ormsgpack.unpackb(body, option=_UNPACK)
    except ValueError as error:
        raise ProtocolError(f"the server sent what is no message: {error}") from error
    if isinstance(message, list):
        if len(message) == 4 and message[0] == RESPONSE:
            return message
        if (
            len(message) == 3
            and message[0] == NOTIFICATION
            and isinstance(message[2], list)
            and len(message[2]) == 1
            and isinstance(message[2][0], dict)
        ):
            return message
    raise ProtocolError("the server sent a message of another form")


def length(header: bytes | bytearray | memoryview) -> int:
    """The length of the body that follows a header of four bytes."""
    header = bytes(header)
    n = int.from_bytes(header, "big")
    if n > MAX_FRAME:
        begun = header.decode("latin-1")
        raise ProtocolError(
            f"a server that is not stele answers: what it sends begins with {begun!r}"
        )
    return n


class Hello:
    """What a server says of itself."""

    __slots__ = ("call_slots", "max_frame", "methods", "server", "store", "store_id")

    def __init__(self, answer: Any) -> None:
        protocol = answer.get("protocol") if isinstance(answer, dict) else None
        if not isinstance(protocol, int):
            raise ProtocolError("the server's answer to hello is of another form")
        if protocol != PROTOCOL:
            raise VersionError(
                f"the server speaks protocol {protocol}, this client {PROTOCOL}"
            )
        self.server = str(answer.get("server", ""))
        self.store = str(answer.get("store", ""))
        self.store_id = str(answer.get("store_id", ""))  # empty: it does not say
        self.methods = frozenset(answer.get("methods") or ())
        self.max_frame = min(_positive(answer, "max_frame", MAX_FRAME), MAX_FRAME)
        self.call_slots = _positive(answer, "call_slots", 1)


def _positive(answer: dict[str, Any], field: str, default: int) -> int:
    n = answer.get(field)
    return n if isinstance(n, int) and n > 0 else default


def asked(method: str) -> str:
    """What a method asks for, in the words of who calls."""
    return "a new connection" if method == "hello" else method


class Lost(Exception):
    """The connection broke, or the server ends: the call is asked again."""


def prove(side: str, address: Address, challenge: str) -> str:
    """The proof of one side that it knows the token of an address.

    A server that was killed leaves its address in the directory, and another program
    may listen there: it must learn neither the token nor what is stored.
    """
    text = "\0".join((side, f"{address.host}:{address.port}", challenge))
    return hmac.new((address.token or "").encode(), text.encode(), "sha256").hexdigest()


def greeted(address: Address, hello: Params, answer: Any) -> Hello:
    """What a server says of itself; Lost if it is another than the directory's."""
    if address.proves:
        proof = answer.get("proof") if isinstance(answer, dict) else None
        wanted = prove("server", address, str(hello["challenge"]))
        if not isinstance(proof, str) or not hmac.compare_digest(
            proof.encode(), wanted.encode()
        ):
            raise stranger(address)
    return Hello(answer)


def stranger(address: Address) -> Lost:
    """The error where a server does not know the token of the directory."""
    return Lost(f"another program listens at {address}, which the server left")


def hello(address: Address, *, in_turn: bool) -> Params:
    """The fields of hello. in_turn: the connection has one call at a time."""
    params: Params = {"protocol": PROTOCOL, "client": CLIENT}
    if address.proves:
        params["challenge"] = secrets.token_hex(32)
        params["proof"] = prove("client", address, params["challenge"])
    elif address.token:
        params["token"] = address.token
    if in_turn:
        params["in_turn"] = True
    return params
