"""Records what LangGraph's InMemoryStore answers to random operations.

The operations stay where the reference's rules and stele's agree; README.md has
the differences, and what Mended does about three of them.
"""

import json
import random
import sys

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    get_text_at_path,
)
from langgraph.store.memory import InMemoryStore

rng = random.Random(20260102)

NAMESPACES = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a"), ("b",), ("b", "a", "c"), ("é", "x")]
KEYS = ["k1", "k2", "k3", "", "ü"]
WORDS = ["xyz", "xx", "x y", "zebra", "yak", "", "héllo", "10", "9"]
PATHS = ["$", "", "s", "n", "f", "b", "none", "l", "l[0]", "l[-1]", "l[*]", "l[7]", "m", "m.s", "m.*", "m.d.x", "*", "{s,n}", "{s,m.s}", "d[*].s",
         "d[*].{n,s}", "d[0].l[*]", "d.s", "s.x", "s[0]", "l[x]", "l[", "{s", "m.{s,d}", "[0]", ".", "..s", "m..s", "d[*]", "d.*.s", "{none,zz}", "* .s"]


class Mended(InMemoryStore):
    """Answers where the reference fails or remembers what is gone."""

    def batch(self, ops):
        answers = super().batch(ops)
        for ns in [ns for ns, items in self._data.items() if not items]:
            del self._data[ns]  # it would list every namespace ever read
        return answers

    def _extract_texts(self, put_ops):
        for ns, key in put_ops:
            self._vectors[ns].pop(key, None)  # vectors of an older value stay
        return super()._extract_texts(put_ops)

    def _insertinmem_store(self, to_embed, embeddings):
        pairs = zip(to_embed.values(), embeddings, strict=True)
        for places, embedding in pairs:  # it refuses a text that occurs twice
            for ns, key, path in places:
                self._vectors[ns][key][path] = embedding


def embed(texts):
    return [[float(t.count(c)) + 0.01 for c in "xyz0"] for t in texts]


def scalar():
    return rng.choice([None, rng.randint(-3, 12), rng.choice([0.5, -2.25, 1e20, 1e-7, 3.0]), rng.choice(WORDS)])


def document(depth=0):
    doc = {"s": rng.choice(WORDS), "n": rng.choice([rng.randint(-3, 12), rng.choice([0.5, 9.5, 2.0])]), "b": rng.random() < 0.5}
    if rng.random() < 0.5:
        doc["f"] = scalar()
    if rng.random() < 0.5:
        doc["l"] = [scalar() for _ in range(rng.randint(0, 3))]
    if depth < 2 and rng.random() < 0.5:
        doc["m"] = document(depth + 1)
    if depth < 2 and rng.random() < 0.3:
        doc["d"] = [document(depth + 1) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.2:
        doc["none"] = None
    return dict(sorted(doc.items()))  # a map of Go has no order of its own


def condition():
    kind = rng.randrange(6)
    op = rng.choice(["$gt", "$gte", "$lt", "$lte"])
    number = rng.choice([0, 2, 9, 9.5, -1, 2.0])
    return [
        ("n", {op: number}),
        ("n", {op: number, "$ne": 2}),
        ("s", rng.choice([rng.choice(WORDS), {"$eq": rng.choice(WORDS)}, {"$ne": rng.choice(WORDS)}])),
        ("b", rng.random() < 0.5),
        ("m", rng.choice([{}, {"b": True}, {"s": {"$ne": "xx"}}, {"b": False}, None])),
        ("l", rng.choice([[], [None], [{"$ne": "xx"}], None, {"$eq": []}])),
    ][kind]


def put():
    ns, key = rng.choice(NAMESPACES), rng.choice(KEYS)
    if rng.random() < 0.2:
        return PutOp(ns, key, None)
    index = rng.choice([None, None, None, False, ["s"], ["m.s", "l[*]"]])
    return PutOp(ns, key, document(), index=index)


def read():
    kind = rng.randrange(4)
    if kind == 0:
        return GetOp(rng.choice(NAMESPACES), rng.choice(KEYS))
    if kind == 1:
        conditions = tuple(
            MatchCondition(match_type=rng.choice(["prefix", "suffix"]), path=rng.choice([("a",), ("*", "a"), ("b", "*"), ("c",), ("*",), ("a", "b", "c", "d")]))
            for _ in range(rng.randint(0, 2))
        )
        return ListNamespacesOp(conditions, max_depth=rng.choice([None, 1, 2]), limit=rng.choice([2, 3, 100]), offset=rng.choice([0, 0, 1, 2]))
    query = rng.choice(["x", "yz", "0 z"]) if kind == 3 else None
    filters = dict(condition() for _ in range(rng.randint(0, 2)))
    return SearchOp(rng.choice(NAMESPACES + [()]), filters or None, 1000, 0, query)


def show_op(op):
    match op:
        case PutOp():
            return {"op": "put", "ns": op.namespace, "key": op.key, "value": op.value, "index": op.index}
        case GetOp():
            return {"op": "get", "ns": op.namespace, "key": op.key}
        case ListNamespacesOp():
            return {"op": "list", "match": [[c.match_type, c.path] for c in op.match_conditions or ()], "depth": op.max_depth or 0, "limit": op.limit, "offset": op.offset}
    return {"op": "search", "ns": op.namespace_prefix, "filter": op.filter, "query": op.query or ""}


def show(answer):
    match answer:
        case None:
            return None
        case list():
            return [list(x) if isinstance(x, tuple) else show(x) for x in answer]
    out = {"ns": list(answer.namespace), "key": answer.key, "value": answer.value}
    if getattr(answer, "score", None) is not None:
        out["score"] = answer.score
    return out


def main():
    store = Mended(index={"dims": 4, "embed": embed, "fields": ["s", "m.s"]})
    for _ in range(300):
        ops = [put() if rng.random() < 0.6 else read() for _ in range(rng.choice([1, 1, 2, 5]))]
        answers = store.batch(ops)
        print(json.dumps({"ops": [show_op(o) for o in ops], "answers": [show(a) for a in answers]}, ensure_ascii=False))
    for _ in range(40):
        doc = document()
        for path in rng.sample(PATHS, 8):
            print(json.dumps({"doc": doc, "path": path, "texts": get_text_at_path(doc, path)}, ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main()
