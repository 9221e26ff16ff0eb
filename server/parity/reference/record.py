"""Records the exchanges of scenarios.py with a running server, into ../testdata.

Usage: record.py BASE [SCENARIO…]. record.sh starts the reference server and runs it.
"""

import inspect
import json
import pathlib
import sys
from importlib.metadata import version

import httpx
import recorder
import scenarios

HERE = pathlib.Path(__file__).parent
PACKAGES = ["langgraph-api", "langgraph-runtime-inmem", "langgraph", "langchain-core"]


def main(base, wanted):
    out = HERE.parent / "testdata"
    out.mkdir(exist_ok=True)
    found = httpx.post(base + "/assistants/search", json={"limit": 100}).json()
    literal = {a["assistant_id"] for a in found if a["metadata"].get("created_by") == "system"}
    total = 0
    for name, play in inspect.getmembers(scenarios, inspect.isfunction):
        if play.__module__ != "scenarios" or name.startswith("_") or wanted and name not in wanted:
            continue
        p = recorder.Player(base, literal)
        try:
            play(p)
        finally:
            p.end()
        names = [line["name"] for line in p.lines]
        assert len(set(names)) == len(names), f"{name}: two exchanges have one name: {names}"
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in p.lines)
        (out / f"{name}.jsonl").write_text(text)
        total += len(p.lines)
        print(f"{name}: {len(p.lines)} exchanges")
    if not wanted:
        about = {
            "about": "Answers of the reference server, recorded by reference/record.sh.",
            "packages": {p: version(p) for p in PACKAGES},
            "dropped": recorder.DROPPED,
            "headers": recorder.HEADERS,
        }
        (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{total} exchanges")


main(sys.argv[1].rstrip("/"), sys.argv[2:])
