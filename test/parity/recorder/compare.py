"""Compares two directories of fixtures line by line, as JSON and not as bytes.

    python -m recorder.compare COMMITTED FRESH

Compression and spacing do not matter; everything that was said does.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
from typing import Any

# Differences shown per fixture; after the first one the numbers usually shift.
_SHOWN = 3
_WIDTH = 300


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return [json.loads(line) for line in data.decode("ascii").splitlines()]


def fixtures(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    return {path.name.split(".jsonl")[0]: path for path in directory.glob("*.jsonl*")}


def _text(line: dict[str, Any] | None) -> str:
    text = "(no line)" if line is None else json.dumps(line, sort_keys=True)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "…"


def differences(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[str]:
    found = []
    for number in range(max(len(old), len(new))):
        before = old[number] if number < len(old) else None
        after = new[number] if number < len(new) else None
        # 1 and 1.0 are equal in Python and different on disk.
        if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
            found.append(
                f"  line {number + 1}\n    committed {_text(before)}\n    fresh     {_text(after)}"
            )
    return found


def main(committed: pathlib.Path, fresh: pathlib.Path) -> int:
    old, new = fixtures(committed), fixtures(fresh)
    drifted = 0
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            drifted += 1
            print(f"{name}: only {'committed' if name in old else 'fresh'}")
            continue
        before, after = read(old[name]), read(new[name])
        found = differences(before, after)
        if found:
            drifted += 1
            print(f"{name}: {len(found)} of {len(before)} lines differ (fresh: {len(after)} lines)")
            print("\n".join(found[:_SHOWN]))
    print(f"parity recordings: {len(old)} fixtures committed, {drifted} drifted")
    return 1 if drifted or not old else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
