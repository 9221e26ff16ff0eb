"""A server that says what a test tells it: what no real one does on demand."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import ormsgpack

Handler = Callable[["Peer", int, str, dict[str, Any]], None]

HELLO = {
    "protocol": 1,
    "server": "fake",
    "store": "disk",
    "methods": [],
    "max_frame": 1 << 20,
    "max_calls": 256,
    "max_value": 1 << 20,
    "call_slots": 256,
}


def frame(message: Any) -> bytes:
    body = ormsgpack.packb(message)
    return len(body).to_bytes(4, "big") + body


class Peer:
    """The server's end of one connection."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock

    def answer(self, number: int, result: Any) -> None:
        self.sock.sendall(frame([1, number, None, result]))

    def error(self, number: int, code: str, **details: Any) -> None:
        error = {"code": code, "message": f"it is {code}", "details": details}
        self.sock.sendall(frame([1, number, error, None]))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.sock.sendall(frame([2, method, [params]]))

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._run()
        except OSError:
            pass  # the other side has gone
        finally:
            self.server.ended += 1

    def _run(self) -> None:
        with self.sock, self.sock.makefile("rb") as stream:
            while len(header := stream.read(4)) == 4:
                length = int.from_bytes(header, "big")
                if len(body := stream.read(length)) < length:
                    return
                message = ormsgpack.unpackb(body)
                with self.server.lock:
                    self.server.messages.append(message)
                if message[0] == 2:
                    self.server.notified(self, message[1], message[2][0])
                elif message[2] == "hello":
                    self.server.hello(self, message[1], message[2], message[3][0])
                else:
                    self.server.handle(self, message[1], message[2], message[3][0])


class Server:
    """Listens on a unix socket; handle is called for each request but hello."""

    def __init__(self, path: str | os.PathLike[str], handle: Handler) -> None:
        self.path = os.fspath(path)
        self.handle = handle
        self.notified: Callable[[Peer, str, dict[str, Any]], None] = lambda *_: None
        self.hello: Handler = lambda peer, number, *_: peer.answer(number, HELLO)
        self.lock = threading.Lock()
        self.messages: list[Any] = []
        self.connections = 0
        self.ended = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self.peers: list[Peer] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"unix:{self.path}"

    def requests(self, method: str) -> list[dict[str, Any]]:
        """The fields of the requests of a method, in order."""
        with self.lock:
            return [m[3][0] for m in self.messages if m[0] == 0 and m[2] == method]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            peer = Peer(self, sock)
            self.peers.append(peer)
            threading.Thread(target=peer.run, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()
        os.unlink(self.path)
        for peer in self.peers:
            try:
                peer.close()
            except OSError:
                pass
