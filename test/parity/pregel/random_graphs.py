"""Graphs and scripts drawn at random, as plain data that Python and Go both run.

Names are drawn so that what can go wrong in a superstep does so last: the
harness runs tasks one after another, and the order of failures is no rule.
"""

from __future__ import annotations

import random
from typing import Any

KINDS = ("any", "delta", "eph", "last", "list", "sum", "topic", "topic_all", "untracked")


class Draw:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def maybe(self, p: float) -> bool:
        return self.r.random() < p

    def one(self, xs: Any) -> Any:
        return self.r.choice(list(xs))

    def some(self, xs: list, at_least: int = 1, at_most: int = 2) -> list:
        n = min(len(xs), self.r.randint(at_least, at_most))
        return self.r.sample(xs, n)


def keys_of(d: Draw) -> dict[str, str]:
    """The state: key to kind. Every state has steps and n."""
    keys = {"n": "sum", "steps": "list"}
    for kind in KINDS:
        if kind not in ("list", "sum") and d.maybe(0.3 if kind in ("last", "delta") else 0.15):
            keys["k_" + kind] = kind
    return dict(sorted(keys.items()))


def update(d: Draw, keys: dict[str, str], who: str, rich: float = 0.5) -> list:
    """An update as pairs. Words tell who wrote them."""
    out: list = [["steps", [who]]]
    for key, kind in keys.items():
        p = {"last": 0.12, "list": 0, "sum": 0.5, "eph": 0.2}.get(kind, 0.4)
        if not d.maybe(p * 2 * rich):
            continue
        if kind == "sum":
            out.append([key, d.r.randint(1, 3)])
        elif kind in ("delta", "topic", "topic_all"):
            out.append([key, [f"{who}{i}" for i in range(d.r.randint(1, 2))]])
        elif kind != "list":
            out.append([key, who])
    if d.maybe(0.05):
        out[0] = ["steps", {"$overwrite": [who]}]
    if d.maybe(0.05):
        out.append(["nobody", who])
    d.r.shuffle(out)
    return out


def given(d: Draw, keys: dict[str, str]) -> list:
    """An input: stored as a map, whose order Go does not keep."""
    return sorted(update(d, keys, "in"), key=lambda p: p[0])


def packet(d: Draw, nodes: list[str]) -> dict:
    return {"send": d.one(nodes), "arg": d.one(["text", {"steps": ["sent"]}, {"n": 5, "steps": []}])}


def target(d: Draw, nodes: list[str], p_send: float = 0.3) -> Any:
    return packet(d, nodes) if d.maybe(p_send) else d.one(nodes)


def node(d: Draw, name: str, others: list[str], keys: dict[str, str], depth: int, inside: bool) -> dict:
    out: dict[str, Any] = {"name": name}
    fragile = name.startswith("z")
    if depth < 2 and not fragile and d.maybe(0.25):
        out["sub"] = graph(d, keys, depth + 1)
        out["sub"]["stable"] = d.maybe(0.35)
        if d.maybe(0.4):
            out["calls"] = d.r.randint(1, 2)
    else:
        out["asks"] = d.r.randint(1, 2) if d.maybe(0.22) else 0
        out["emits"] = d.maybe(0.15)
        if fragile:
            out["fails"] = d.r.randint(1, 2)
            out["retries"] = d.one([1, 1, 2])
        elif d.maybe(0.08):
            out["fails"] = 99
            out["handler"] = update(d, keys, "h" + name, 0.3)
        out["update"] = update(d, keys, name)
        out["returns"] = d.one(["dict", "dict", "dict", "command", "list", "none" if d.maybe(0.3) else "dict"])
        if out["returns"] in ("command", "list") and d.maybe(0.7):
            out["goto"] = [target(d, others) for _ in range(d.r.randint(1, 2))]
            if d.maybe(0.08):
                out["goto"].append("missing")
        if inside and d.maybe(0.05):
            out["returns"], out["goto"], out["parent"] = "command", ["b"], True
    if d.maybe(0.1):
        out["defer"] = True
    return out


def graph(d: Draw, keys: dict[str, str], depth: int = 0) -> dict:
    names = list("abcdef")[: d.r.randint(2, 6 if depth == 0 else 3)]
    if d.maybe(0.2):
        names.append("zf")
    sendable = [n for n in names if not n.startswith("z")]
    out: dict[str, Any] = {
        "nodes": [node(d, n, sendable, keys, depth, depth > 0) for n in names],
        "edges": [["__start__", n] for n in d.some(names, 1, 2)],
        "joins": [],
        "branches": [],
        "before": [],
        "after": [],
    }
    for i, n in enumerate(names):
        later = names[i + 1 :]
        if later and d.maybe(0.75):
            for to in d.some(later, 1, 2):
                out["edges"].append([n, to])
        if d.maybe(0.12):
            out["edges"].append([n, d.one(names)])
        if d.maybe(0.25):
            out["branches"].append(branch(d, n, sendable))
    if d.maybe(0.1):
        out["branches"].append(branch(d, "__start__", sendable))
    if len(names) > 2 and d.maybe(0.35):
        sources = d.some(names[:-1], 2, 3)
        out["joins"].append([sources, d.one(names)])
    if d.maybe(0.15):
        out["before"] = ["*"] if d.maybe(0.15) else d.some(names)
    if d.maybe(0.12):
        out["after"] = ["*"] if d.maybe(0.15) else d.some(names)
    edges: list = []
    for e in out["edges"]:
        if e not in edges:
            edges.append(e)
    out["edges"] = edges
    return out


def branch(d: Draw, source: str, nodes: list[str]) -> dict:
    ways = []
    for _ in range(d.r.randint(1, 3)):
        ways.append([target(d, nodes + ["__end__"] if d.maybe(0.5) else nodes, 0.25) for _ in range(d.r.randint(1, 2))])
        for i, w in enumerate(ways[-1]):
            if isinstance(w, dict) and w["send"] == "__end__":
                ways[-1][i] = "__end__"
    return {"from": source, "by": d.one(["n", "steps"]), "ways": ways}


def script(d: Draw, keys: dict[str, str], names: list[str]) -> list:
    ops: list = [{"op": "run", "input": given(d, keys)}]
    for _ in range(d.r.randint(3, 7)):
        kind = d.one(["go_on"] * 7 + ["run", "state", "update", "update", "replay", "replay", "branch", "command", "copy", "inside", "bulk", "clear", "input"])
        op: dict[str, Any] = {"op": kind, "pick": d.r.randint(0, 1000)}
        if kind == "go_on":
            # A single answer that was taken already is not given again, as it is by
            # LangGraph to whoever asks next in a run that brings none.
            op["how"] = d.one(["value", "all", "all", "one", "none" if len(ops) == 1 else "all"])
            op["update"] = update(d, keys, "with", 0.2) if d.maybe(0.1) else None
        elif kind in ("run", "branch", "input"):
            op["input"] = given(d, keys if kind != "input" else {k: v for k, v in keys.items() if v != "untracked"})
        elif kind in ("update", "bulk", "copy"):
            # LangGraph stores the writes of an update to channels it never stores.
            stored = {k: kind for k, kind in keys.items() if kind != "untracked"}
            op["values"] = update(d, stored, "upd") if d.maybe(0.85) else None
            op["more"] = update(d, stored, "more")
            op["as"] = d.one([None, *names]) if kind == "update" else d.one(names)
            op["as2"] = d.one(names)
            op["at_head"] = d.maybe(0.5)
            op["run"] = d.maybe(0.7)
        elif kind == "command":
            op["goto"] = [target(d, names)] if d.maybe(0.8) else []
            op["update"] = update(d, keys, "cmd") if d.maybe(0.6) or not op["goto"] else None
        ops.append(op)
    return ops


def season(d: Draw, g: dict, keys: dict[str, str]) -> None:
    """What seeds from RICH on draw as well: calls of durable tasks, which ask and
    call in turn, handlers that ask, handlers of graphs inside, plain packets. Only
    the task that runs last in its superstep calls, and none beside a handler: while
    it waits others could run."""
    sendable = [n["name"] for n in g["nodes"] if not n["name"].startswith("z")]
    for n in g["nodes"]:
        if n.get("sub"):
            season(d, n["sub"], keys)
            if d.maybe(0.2) and not n.get("calls"):
                n["handler"] = update(d, keys, "h" + n["name"], 0.3)
            continue
        if n is g["nodes"][-1] and not n["name"].startswith("z") and d.maybe(0.7):
            n["tasks"] = [{"asks": d.maybe(0.3), "below": d.maybe(0.25)} for _ in range(d.r.randint(1, 2))]
        if n.get("handler") and d.maybe(0.4):
            n["handler_asks"] = True
        if n["returns"] == "dict" and d.maybe(0.06):
            n["returns"], n["goto"] = "send", [packet(d, sendable)]
    for n in g["nodes"]:
        # LangGraph runs a handler that ended again, and has such writes of it again.
        if n.get("handler"):
            n["handler"] = [p for p in n["handler"] if p[0] != "k_untracked"]
            g["nodes"][-1].pop("tasks", None)


def season_script(d: Draw, ops: list, names: list[str], keys: dict[str, str]) -> None:
    """Runs with breakpoints and a durability of their own, answers that also go
    somewhere. LangGraph's Exit stores what is never stored: see random_trace.py."""
    durabilities = ["sync"] if "k_untracked" in keys else ["sync", "exit"]
    for op in ops:
        if d.maybe(0.2):
            op["durability"] = d.one(durabilities)
        if d.maybe(0.12):
            op["before"] = ["*"] if d.maybe(0.2) else d.some(names)
        if d.maybe(0.12):
            op["after"] = ["*"] if d.maybe(0.2) else d.some(names)
        if op["op"] == "go_on" and d.maybe(0.15):
            op["goto"] = [target(d, names)]


def loosen(d: Draw, g: dict, ops: list) -> None:
    """What seeds from LOOSE on draw as well: any node may fail, before others of its
    superstep have begun; answers on a thread that has ended; copies with a map; runs that
    store beside the next superstep. stele refuses input that a graph inside cannot take,
    and a retry there finds the calls that ended."""
    loosen_nodes(d, g)
    plain_packets(g)
    plain_packets(ops)
    for op in ops:
        if op["op"] == "go_on" and d.maybe(0.3):
            op["stray"] = True
        if op["op"] == "copy" and d.maybe(0.4):
            op["map"] = True
        if "durability" not in op and d.maybe(0.1):
            op["durability"] = "async"


def loosen_nodes(d: Draw, g: dict) -> None:
    for n in g["nodes"]:
        if n.get("sub"):
            loosen_nodes(d, n["sub"])
        elif not n.get("fails") and d.maybe(0.15):
            n["fails"], n["retries"] = d.r.randint(1, 2), 1 if n.get("tasks") else d.one([1, 1, 2])


def plain_packets(v: Any) -> None:
    if isinstance(v, dict):
        if v.get("arg") == "text":
            v["arg"] = {"steps": ["text"]}
        v = list(v.values())
    if isinstance(v, list):
        for x in v:
            plain_packets(x)


RICH = 1000
LOOSE = 5000


def elsewhere(v: Any, name: str, to: str) -> None:
    """Sends packets for name to another node."""
    if isinstance(v, dict):
        if v.get("send") == name:
            v["send"] = to
        v = [x for k, x in v.items() if k != "sub"]
    if isinstance(v, list):
        for x in v:
            elsewhere(x, name, to)


def single_callers(g: dict) -> None:
    """Packets do not run a node that calls, which could then run twice at a time."""
    for n in g["nodes"]:
        if n.get("sub"):
            single_callers(n["sub"])
    if g["nodes"][-1].get("tasks"):
        elsewhere(g, g["nodes"][-1]["name"], g["nodes"][0]["name"])


def draw(seed: int) -> dict:
    d = Draw(seed)
    keys = keys_of(d)
    g = graph(d, keys)
    names = [n["name"] for n in g["nodes"] if not n["name"].startswith("z")]
    out = {"seed": seed, "keys": keys, "frequency": d.one([1, 3, 1000]), "graph": g, "script": script(d, keys, names)}
    if seed >= RICH:
        season(d, g, keys)
        season_script(d, out["script"], names, keys)
        if seed >= LOOSE:
            loosen(d, g, out["script"])
        single_callers(g)
        if g["nodes"][-1].get("tasks"):
            elsewhere(out["script"], g["nodes"][-1]["name"], g["nodes"][0]["name"])
    return out
