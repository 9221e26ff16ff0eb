"""Makes old/*.json: threads as releases of LangGraph with checkpoint formats 1 to
3 stored them, from what this one stores: python old.py

Format 3 has today's channels. In formats 1 and 2 an entry fires `start:X`, a
branch `branch:source:condition:X`, and a plain edge the channel named like its
source. Format 1 has task ids of its own.
"""

import json
import os
import sys

from harness import Trace, canon
from scenarios_old import graph

OLD = {
    "branch:to:plan": ("start:plan", "__start__"),
    "branch:to:analyze": ("plan", "plan"),
    "branch:to:fetch2": ("branch:plan:more:fetch2", "plan"),
    "branch:to:fetch1": ("analyze", "analyze"),
}


def earlier(id: str) -> str:
    """Ids of long before the injected clock: LangGraph's new ones do not go above
    those it finds, stele's do."""
    return "1ed" + id[3:]


def age(v: int, tup: object) -> dict:
    cp = tup.checkpoint
    parent = tup.parent_config
    names = OLD if v < 3 else {}

    def rename(d: dict) -> dict:
        return {names.get(k, (k,))[0]: x for k, x in d.items()}

    values = canon(cp["channel_values"])
    return {
        "v": v,
        "id": earlier(cp["id"]),
        "ts": "2025-03-14T00:00:00+00:00",
        "parent": earlier(parent["configurable"]["checkpoint_id"]) if parent else "",
        "metadata": {**canon(tup.metadata), "writes": None},
        "values": {names.get(k, (k,))[0]: names[k][1] if k in names else x for k, x in values.items()},
        "versions": rename(canon(cp["channel_versions"])),
        "seen": {n: rename(s) for n, s in canon(cp["versions_seen"]).items()},
        "writes": [],
    }


def main() -> None:
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "old")
    os.makedirs(out, exist_ok=True)
    now = Trace("sync")
    graph(now).invoke({"steps": ["in"]}, now.config(), durability="sync")
    stored = sorted(now.saver.list(now.config()), key=lambda t: t.checkpoint["id"])
    for v in (1, 2, 3):
        thread = [age(v, tup) for tup in stored]
        # The tasks of this format have ids that LangGraph says when it reads it.
        old = Trace("sync")
        for cp in thread:
            put(old, "t", cp)
        ids: dict = {}
        for s in graph(old).get_state_history(old.config()):
            ids[s.config["configurable"]["checkpoint_id"]] = {t.name: t.id for t in s.tasks}
        for cp, tup in zip(thread, stored):
            today = {t.id: t.name for t in names(now, tup)}
            for task, ch, value in tup.pending_writes:
                name = OLD.get(ch, (ch, None)) if v < 3 else (ch, canon(value))
                cp["writes"].append([ids[cp["id"]][today[task]], name[0], canon(value) if name[1] is None else name[1]])
        with open(os.path.join(out, f"v{v}.json"), "w", encoding="utf-8") as f:
            json.dump(thread, f, indent=1, sort_keys=True)
            f.write("\n")


def names(t: Trace, tup: object) -> tuple:
    return graph(t).get_state(tup.config).tasks


def put(t: Trace, thread: str, cp: dict) -> None:
    from scenarios_old import store

    store(t, thread, cp)


main()
