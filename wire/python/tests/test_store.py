"""The store beside InMemoryStore, and expiry."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langgraph.checkpoint.stele import errors
from langgraph.store.stele import SteleStore

LABELS = ("a", "b", "é", "long label", "*x")
FILTERS: tuple[Any, ...] = (
    None,
    {"n": 1},
    {"n": {"$gt": 2}},
    {"n": {"$gte": 1, "$lt": 4}},
    {"s": "x"},
    {"s": {"$ne": "x"}},
    {"n": 2, "s": "y"},
    {"deep": {"k": [1, None]}},
)


def random_op(rng: random.Random) -> Any:
    namespace = tuple(rng.choices(LABELS, k=rng.randint(1, 3)))
    key = rng.choice("kl")
    match rng.randrange(6):
        case 0:
            return GetOp(namespace, key)
        case 1:
            return PutOp(namespace, key, None)
        case 2:
            return SearchOp(namespace[:-1], rng.choice(FILTERS), limit=1000)
        case 3:
            kind: Any = rng.choice(("prefix", "suffix"))
            path = tuple(rng.choice((label, "*")) for label in namespace)
            return ListNamespacesOp(
                (MatchCondition(kind, path),), rng.choice((None, 1, 2)), limit=1000
            )
        case _:
            value = {
                "n": rng.randrange(5),
                "s": rng.choice("xyz"),
                "deep": {"k": [1, None], "text": "é\u2028"},
            }
            return PutOp(namespace, key, value)


def shown(result: Any) -> Any:
    """What a result has that does not depend on the store's clock and order."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list):
        return sorted(map(shown, result), key=repr)
    return result


async def test_as_in_memory(directory: Path) -> None:
    seed = int(os.environ.get("STELE_SEED") or random.randrange(1 << 32))
    rng = random.Random(seed)
    memory = InMemoryStore()
    with SteleStore.from_dir(directory) as store:
        for step in range(300):
            op = random_op(rng)
            want = shown(memory.batch([op])[0])
            # It lists namespaces in which there is nothing, also those only asked for.
            for empty in [ns for ns, items in memory._data.items() if not items]:
                del memory._data[empty]
            if step % 2:
                got = shown(store.batch([op])[0])
            else:
                got = shown((await store.abatch([op]))[0])
            assert got == want, f"{op}; STELE_SEED={seed}"


def test_a_batch_is_in_order(directory: Path) -> None:
    with SteleStore.from_dir(directory) as store:
        first, put, second = store.batch(
            [GetOp(("a",), "k"), PutOp(("a",), "k", {"n": 1}), GetOp(("b",), "k")]
        )
        assert (first, put, second) == (None, None, None)
        assert store.batch([]) == []
        item = store.get(("a",), "k")
        assert item is not None and item.created_at == item.updated_at
        assert item.created_at.tzinfo is not None
        assert abs(item.created_at.timestamp() - time.time()) < 3600
        store.put(("a",), "k", {"n": 2})
        again = store.get(("a",), "k")
        assert again is not None and again.created_at == item.created_at
        assert again.updated_at > item.updated_at
        with pytest.raises(InvalidNamespaceError):
            store.put(("a.b",), "k", {"n": 2})
        with pytest.raises(InvalidNamespaceError):
            store.batch([GetOp(("a.b",), "k")])
        with pytest.raises(errors.InvalidArgumentError, match="leave out query"):
            store.search(("a",), query="what?")
        assert [i.key for i in store.search(("a",), query="")] == ["k"]
        assert store.search(("a",), limit=0) == store.list_namespaces(limit=0) == []
        for wrong in (0, -1, float("inf"), float("nan"), 1e300):
            with pytest.raises(errors.InvalidArgumentError, match="minutes"):
                store.put(("a",), "k", {}, ttl=wrong)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: "x"}, "the value of 'k' has the key 1 of type int"),
        ({"a": 1, 2.5: {}}, "the value of .k. has the key 2.5 of type float"),
        ({None: 1}, "has the key None of type NoneType"),
    ],
)
async def test_a_key_that_is_no_str(directory: Path, value: Any, told: str) -> None:
    told += ".*make str of it"
    with SteleStore.from_dir(directory) as store:
        with pytest.raises(errors.InvalidArgumentError, match=told):
            store.batch([PutOp(("a",), "i", {"n": 1}), PutOp(("a",), "k", value)])
        with pytest.raises(errors.InvalidArgumentError, match=told):
            await store.aput(("a",), "k", value)
        told = "filter has the key .*make str of it"
        with pytest.raises(errors.InvalidArgumentError, match=told):
            store.search(("a",), filter=value)
        assert store.search(("a",)) == []
        within = {"a": [{1: {None: 2.5}}]}
        store.put(("a",), "k", within)
        item = store.get(("a",), "k")
        assert item is not None and item.value == within


@pytest.mark.parametrize("value", [["ab", "cd"], "", [], [1], 5, Item])
async def test_a_value_that_is_no_dict(directory: Path, value: Any) -> None:
    told = f"an item is a dict, and 'k' is a {type(value).__name__}; put it into one"
    with SteleStore.from_dir(directory) as store:
        with pytest.raises(errors.InvalidArgumentError, match=told):
            store.batch([PutOp(("a",), "i", {"n": 1}), PutOp(("a",), "k", value)])
        with pytest.raises(errors.InvalidArgumentError, match=told):
            await store.aput(("a",), "k", value)
        assert store.search(("a",)) == []
        store.put(("a",), "k", MappingProxyType({"n": 1}))  # type: ignore[arg-type]
        item = store.get(("a",), "k")
        assert item is not None and item.value == {"n": 1}


@pytest.mark.parametrize("key", [None, 5, b"k"])
async def test_an_item_whose_key_is_no_str(directory: Path, key: Any) -> None:
    """LangGraph's stores make a str of it: all who forgot theirs had the key "None"."""
    with SteleStore.from_dir(directory) as store:
        store.put(namespace=("a",), key=str(key), value={"n": 1})
        for call in (
            lambda: store.put(("a",), key, {}),
            lambda: store.get(("a",), key),
            lambda: store.delete(("a",), key=key),
            lambda: store.batch([PutOp(("a",), key, {})]),
            lambda: store.batch([GetOp(("a",), key)]),
        ):
            with pytest.raises(errors.InvalidArgumentError, match=f"is {key!r}; it is"):
                call()
        for asked in (
            lambda: store.aput(("a",), key, {}),
            lambda: store.aget(("a",), key),
            lambda: store.adelete(("a",), key),
        ):
            with pytest.raises(errors.InvalidArgumentError, match=f"is {key!r}; it is"):
                await asked()
        assert [(i.key, i.value) for i in store.search(("a",))] == [
            (str(key), {"n": 1})
        ]


async def test_what_would_find_too_much_or_nothing(directory: Path) -> None:
    with SteleStore.from_dir(directory) as store:
        store.put(("a", "b"), "k", {"n": 1})
        assert store.list_namespaces(max_depth=1) == [("a",)]
        for depth in (0, -1):
            told = f"max_depth is {depth}.*None means no limit"
            with pytest.raises(errors.InvalidArgumentError, match=told):
                store.list_namespaces(max_depth=depth)
            with pytest.raises(errors.InvalidArgumentError, match=told):
                await store.alist_namespaces(max_depth=depth)
        with pytest.raises(errors.InvalidArgumentError, match=r"\$or.* has no key"):
            store.search(("a",), filter={"$or": [{"n": 1}]})


async def test_expiry(directory: Path) -> None:
    ttl: Any = {"default_ttl": 1 / 600, "refresh_on_read": False}
    with SteleStore.from_dir(directory, ttl=ttl) as store:
        store.put(("a",), "short", {})
        store.put(("a",), "long", {}, ttl=60)
        store.put(("a",), "ever", {}, ttl=None)
        deadline = time.monotonic() + 60
        while store.get(("a",), "short") is not None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert [i.key for i in store.search(("a",))] in (
            ["long", "ever"],
            ["ever", "long"],
        )
