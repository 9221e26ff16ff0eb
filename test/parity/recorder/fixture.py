"""Writes one fixture: JSON lines, with bytes and answers defined once and then named.

The lines are canonical (sorted keys, no spaces, ASCII), so that equal
recordings are equal files.
"""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
from typing import Any

FORMAT = 1
# Larger fixtures are stored compressed; the replay reads both.
GZIP_ABOVE = 300 * 1024

Typed = tuple[str, bytes]

# Operations whose line carries an answer that a replay compares.
ANSWERING = frozenset(
    {"put", "get_tuple", "list", "get_next_version", "get_delta_channel_history"}
)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Fixture:
    """The lines of one recording, in the order of the calls."""

    def __init__(self, name: str, about: str, releases: dict[str, str]) -> None:
        self.name = name
        self.lines: list[str] = []
        self.answers = 0
        self._blobs: dict[Typed, int] = {}
        self._tuples: dict[str, int] = {}
        self._append(
            {"op": "fixture", "format": FORMAT, "name": name, "about": about, **releases}
        )

    def _append(self, line: dict[str, Any]) -> None:
        self.lines.append(canonical(line))

    def blob(self, typed: Typed) -> int:
        """The number of a typed value, defined by a line of its own at first use."""
        kind, data = typed[0], bytes(typed[1])
        number = self._blobs.get((kind, data))
        if number is None:
            number = self._blobs[(kind, data)] = len(self._blobs)
            text = base64.b64encode(data).decode("ascii")
            self._append({"op": "blob", "n": number, "kind": kind, "b64": text})
        return number

    def tuple(self, body: dict[str, Any]) -> int:
        """The number of an answered tuple, defined by a line of its own at first use."""
        key = canonical(body)
        number = self._tuples.get(key)
        if number is None:
            number = self._tuples[key] = len(self._tuples)
            self._append({"op": "tuple", "n": number, **body})
        return number

    def call(self, op: str, **fields: Any) -> None:
        """A call and its answer."""
        self.answers += op in ANSWERING
        self._append({"op": op, **fields})

    def note(self, text: str) -> None:
        """A heading for whoever reads the file; a replay skips it."""
        self._append({"op": "note", "text": text})

    def write(self, directory: pathlib.Path) -> pathlib.Path:
        data = ("\n".join(self.lines) + "\n").encode("ascii")
        path = directory / f"{self.name}.jsonl"
        if len(data) > GZIP_ABOVE:
            path = directory / f"{self.name}.jsonl.gz"
            data = gzip.compress(data, compresslevel=9, mtime=0)
        path.write_bytes(data)
        return path
