"""LangGraph's own store on PostgreSQL, as the other side of a hand-over.

    python store.py write|read|update|setup|names URL KIND

KIND is the kind of the vector index, or "none" for a store without vectors.
"write" sets the tables up and puts items, "update" works on what Go wrote, and all of
them print every item, one line of JSON each, then the namespaces, then what searches find.
"names" prints, for each namespace that the standard input lists, whether a put and a batch take it.
"""

import json
import sys

from langgraph.store.base import InvalidNamespaceError, PutOp
from langgraph.store.postgres import PostgresStore


def embed(texts):
    return [[float(t.count(c)) for c in "xyz"] for t in texts]


VALUES = {
    "str": "text", "int": 7, "big": 2**62, "huge": 2**63, "float": 1.0, "tenth": 0.1, "true": True, "none": None, "empty": "",
    "unicode": "é 😀 \u2028", "backslash": "a\\b\\u0000", "quote": "'\"", "list": [1, 1.0, "b", None, [], {}], "map": {"b": {"a": [1]}, "": 1},
    "small": 5e-324, "long": "x" * 3000,
}


def dump(store, kind):
    def line(item):
        return {"ns": list(item.namespace), "key": item.key, "value": item.value,
                "created": item.created_at.isoformat(timespec="microseconds"), "updated": item.updated_at.isoformat(timespec="microseconds")}

    items = store.search((), limit=1000, refresh_ttl=False)
    for item in sorted(items, key=lambda i: (i.namespace, i.key)):
        print(json.dumps(line(item)))
    print(json.dumps([list(ns) for ns in store.list_namespaces(limit=1000)]))
    for filter in ({"n": 1}, {"n": {"$eq": 2.0}}, {"s": {"$gt": "b"}}, {"s": {"$ne": "c"}}, {"map": {"$eq": {"a": 1}}}, {"ok": True}):
        found = store.search(("f",), filter=filter, limit=100, refresh_ttl=False)
        print(json.dumps(sorted(i.key for i in found)))
    if kind != "none":
        for query in ("x", "yz"):
            found = store.search(("v",), query=query, limit=100, refresh_ttl=False)
            print(json.dumps(sorted([f"{i.score + 0:.5f}", i.key] for i in found)))


def write(store):
    store.put(("users", "ann"), "all", VALUES)
    store.put(("users", "ann"), "again", {"v": 1})
    store.put(("users", "ann"), "again", {"v": 2}, index=False)
    store.put(("users", "a_%\\"), "k", {"v": "pattern"})
    store.put(("users", "axb"), "k", {"v": "no pattern"})
    store.put(("usersx",), "k", {})
    store.put(("gone",), "k", {"v": 1})
    store.delete(("gone",), "k")
    store.put(("ttl",), "minute", {"v": 1}, ttl=1)
    store.put(("ttl",), "half", {"v": 1}, ttl=0.5)
    for i, (n, s) in enumerate([(1, "a"), (2, "b"), (2.0, "c"), (10, "d"), ("1", None)]):
        store.put(("f",), f"k{i}", {"n": n, "s": s, "ok": i % 2 == 0, "map": {"a": i}})
    for text in ("x", "xy", "xxy", "yz", "zzz"):
        store.put(("v", text), text, {"t": text, "u": "other"})
    store.put(("v",), "fields", {"t": "x", "u": ["y", "z"]}, index=["t", "u[*]"])
    store.put(("v",), "none", {"t": "xyz"}, index=False)
    # LangGraph leaves the vectors of the first.
    store.put(("stale",), "k", {"t": "x"})
    store.put(("stale",), "k", {"t": "y"}, index=False)


def update(store):
    item = store.get(("go",), "exact")
    store.put(("go",), "exact", {**item.value, "by": "python"})
    store.get(("go",), "ninety")
    store.batch([PutOp(("go",), "gone", None)])
    store.put(("v", "xy"), "xy", {"t": "zz"})


def names(store):
    def takes(put):
        try:
            put()
        except InvalidNamespaceError:
            return False
        return True

    for ns in map(tuple, json.load(sys.stdin)):
        print(json.dumps([takes(lambda: store.put(ns, "k", {})), takes(lambda: store.batch([PutOp(ns, "k", {})]))]))


command, url, kind = sys.argv[1:]
index = {"dims": 3, "embed": embed, "fields": ["t"], "ann_index_config": {"kind": kind}}
with PostgresStore.from_conn_string(url, index=None if kind == "none" else index) as store:
    if command in ("write", "setup"):
        store.setup()
    if command == "write":
        write(store)
    elif command == "update":
        update(store)
    elif command == "names":
        names(store)
    if command not in ("setup", "names"):
        dump(store, kind)
