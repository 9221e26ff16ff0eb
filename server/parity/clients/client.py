"""LangGraph's SDK for Python against a server: every method that it has, async and sync.

Usage: client.py BASE. The graphs are those of ../graphs_test.go. A method that was not called
is a failure, so a new one of the SDK is not overlooked.
"""

import asyncio
import inspect
import sys
import uuid

from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError

PARTS = ("assistants", "threads", "runs", "crons", "store")


class Counted:
    """A part of the client that remembers which of its methods were called."""

    def __init__(self, part, name, called):
        self._part, self._name, self._called = part, name, called

    def __getattr__(self, name):
        self._called.add(f"{self._name}.{name}")
        return getattr(self._part, name)


async def done(v):
    """What a method of either client gives: its value, or all that it streams."""
    if inspect.isawaitable(v):
        v = await v
    if hasattr(v, "__aiter__"):
        return [x async for x in v]
    if inspect.isgenerator(v) or hasattr(v, "__next__"):
        return list(v)
    return v


async def refused(kind, f):
    try:
        got = await done(f())
    except kind:
        return
    raise AssertionError(f"{kind.__name__} expected, got {got}")


async def ended(c, thread, run):
    await done(c.runs.join(thread, run))
    return await done(c.runs.get(thread, run))


async def assistants(c, mark):
    a = await done(c.assistants.create("configured", name=mark, metadata={"mark": mark}, config={"configurable": {"style": "formal"}}))
    ident = a["assistant_id"]
    assert (await done(c.assistants.get(ident)))["name"] == mark
    assert [x["assistant_id"] for x in await done(c.assistants.search(metadata={"mark": mark}))] == [ident]
    page = await done(c.assistants.search(metadata={"mark": mark}, response_format="object"))
    assert [x["assistant_id"] for x in page["assistants"]] == [ident]
    assert await done(c.assistants.count(metadata={"mark": mark})) == 1
    assert (await done(c.assistants.get_graph("counter")))["edges"][0] == {"source": "__start__", "target": "one"}
    found = await done(c.assistants.search(metadata={"created_by": "system"}, limit=100))
    of = {x["graph_id"]: x["assistant_id"] for x in found}
    assert "n" in (await done(c.assistants.get_schemas(of["counter"])))["state_schema"]["properties"]
    assert "middle" in await done(c.assistants.get_subgraphs(of["nested"]))
    assert list(await done(c.assistants.get_subgraphs(of["nested"], recurse=True))) == ["middle", "middle|inner"]
    b = await done(c.assistants.update(ident, config={"configurable": {"style": "plain"}}))
    assert b["version"] == 2
    assert [v["version"] for v in await done(c.assistants.get_versions(ident))] == [2, 1]
    assert (await done(c.assistants.set_latest(ident, 1)))["version"] == 1
    await done(c.assistants.delete(ident))
    await refused(NotFoundError, lambda: c.assistants.get(ident))


async def threads(c, mark):
    t = (await done(c.threads.create(metadata={"mark": mark}, graph_id="counter")))["thread_id"]
    await refused(ConflictError, lambda: c.threads.create(thread_id=t))
    assert (await done(c.threads.create(thread_id=t, if_exists="do_nothing")))["metadata"]["mark"] == mark
    assert (await done(c.threads.get(t)))["status"] == "idle"
    assert (await done(c.threads.update(t, metadata={"more": 1})))["metadata"]["more"] == 1
    assert await done(c.threads.update(t, metadata={"more": 2}, return_minimal=True)) is None
    assert [x["thread_id"] for x in await done(c.threads.search(metadata={"mark": mark}))] == [t]
    assert await done(c.threads.count(metadata={"mark": mark})) == 1
    await done(c.runs.wait(t, "counter", input={"n": 1}))
    s = await done(c.threads.get_state(t))
    assert s["values"]["n"] == 112 and s["next"] == []
    h = await done(c.threads.get_history(t))
    assert [x["metadata"]["step"] for x in h] == [3, 2, 1, 0, -1]
    assert (await done(c.threads.get_state(t, checkpoint=h[2]["checkpoint"])))["values"]["n"] == 2
    assert (await done(c.threads.get_state(t, checkpoint_id=h[1]["checkpoint_id"])))["values"]["n"] == 12
    assert len(await done(c.threads.get_history(t, limit=2, before=h[1]["checkpoint"]))) == 2
    await done(c.threads.update_state(t, {"log": ["by hand"]}, as_node="three"))
    assert (await done(c.threads.get_state(t)))["values"]["log"][-1] == "by hand"
    copied = await done(c.threads.copy(t))
    found = await done(c.threads.search(metadata={"mark": mark}))
    assert len(found) == 2, (copied, found)
    for x in found:
        if x["thread_id"] != t:
            assert await done(c.threads.prune([x["thread_id"]])) == {"pruned_count": 1}
    await done(c.threads.delete(t))
    await refused(NotFoundError, lambda: c.threads.get(t))
    steps = [{"updates": [{"values": {"n": 5}, "as_node": "__input__"}]}, {"updates": [{"values": {"n": 1}, "as_node": "one"}]}]
    made = await done(c.threads.create(graph_id="counter", supersteps=steps))
    assert (await done(c.threads.get_state(made["thread_id"])))["next"] == ["two"]


async def runs(c, mark):
    t = (await done(c.threads.create()))["thread_id"]
    r = await done(c.runs.create(t, "counter", input={"n": 1}, metadata={"mark": mark}))
    assert (await ended(c, t, r["run_id"]))["status"] == "success"
    assert [x["run_id"] for x in await done(c.runs.list(t))] == [r["run_id"]]
    got = await done(c.runs.wait(None, "counter", input={"n": 2}))
    assert got["n"] == 113
    parts = await done(c.runs.stream(t, "counter", input={"n": 0}, stream_mode=["updates", "values"]))
    assert [p.event for p in parts] == ["metadata", "values", "updates", "values", "updates", "values", "updates", "values"], parts
    parts = await done(c.runs.stream(None, "custom", input={}, stream_mode="custom"))
    assert [p.data for p in parts[1:]] == [{"progress": 1}, "half way", [1, None, {"x": 2.5}]]
    await refused(Exception, lambda: c.runs.wait(t, "00000000-0000-4000-8000-000000000999", input={}))
    await refused(Exception, lambda: c.runs.wait(t, "counter", input={}, multitask_strategy="maybe"))
    await refused(Exception, lambda: c.runs.wait(t, "error", input={"fail": True}))
    got = await done(c.runs.wait(t, "error", input={"fail": True}, raise_error=False))
    assert got["__error__"]["message"] == "boom"

    a = (await done(c.threads.create()))["thread_id"]
    got = await done(c.runs.wait(a, "agent", input={"messages": [{"role": "user", "content": "weather in Rome"}]}))
    assert got["__interrupt__"][0]["value"]["city"] == "Rome"
    parts = await done(c.runs.stream(a, "agent", command={"resume": "sunny"}, stream_mode=["messages-tuple", "updates"]))
    said = "".join(p.data[0]["content"] for p in parts if p.event == "messages" and p.data[0]["type"] == "AIMessageChunk")
    assert said == "You said: sunny", said

    s = (await done(c.threads.create()))["thread_id"]
    r = await done(c.runs.create(s, "slow", input={"delay": 0.05}, stream_mode="updates", stream_resumable=True))
    parts = await done(c.runs.join_stream(s, r["run_id"], last_event_id="-1"))
    assert [list(p.data)[0] for p in parts if p.event == "updates"] == ["a", "b", "c", "d"], parts
    r = await done(c.runs.create(s, "slow", input={"delay": 20}))
    await done(c.runs.cancel(s, r["run_id"], wait=True))
    assert (await done(c.runs.get(s, r["run_id"])))["status"] == "interrupted"
    r = await done(c.runs.create(s, "slow", input={"delay": 20}))
    await done(c.runs.cancel_many(thread_id=s, run_ids=[r["run_id"]]))
    await ended(c, s, r["run_id"])
    await done(c.runs.delete(s, r["run_id"]))
    await refused(NotFoundError, lambda: c.runs.get(s, r["run_id"]))
    batch = await done(c.runs.create_batch([{"assistant_id": "counter", "input": {"n": 1}}, {"assistant_id": "custom", "input": {}}]))
    assert len(batch) == 2


async def store(c, mark):
    ns = ["clients", mark]
    await done(c.store.put_item(ns, key="k", value={"n": 1}))
    await done(c.store.put_item(ns, key="l", value={"n": 2}))
    item = await done(c.store.get_item(ns, key="k"))
    assert item["value"] == {"n": 1} and item["namespace"] == ns
    found = await done(c.store.search_items(ns, filter={"n": 2}))
    assert [i["key"] for i in found["items"]] == ["l"]
    assert (await done(c.store.list_namespaces(prefix=ns)))["namespaces"] == [ns]
    await done(c.store.delete_item(ns, key="k"))


async def crons(c, mark):
    t = (await done(c.threads.create()))["thread_id"]
    a = await done(c.crons.create_for_thread(t, "counter", schedule="0 0 1 1 *", input={"n": 1}, metadata={"mark": mark}))
    b = await done(c.crons.create("counter", schedule="0 0 1 1 *", input={"n": 1}, metadata={"mark": mark}))
    assert [x["cron_id"] for x in await done(c.crons.search(thread_id=t))] == [a["cron_id"]]
    assert await done(c.crons.count(thread_id=t)) == 1
    assert (await done(c.crons.update(a["cron_id"], schedule="1 2 3 4 *")))["schedule"] == "1 2 3 4 *"
    for x in (a, b):
        await done(c.crons.delete(x["cron_id"]))


async def streams(c, transport):
    """Protocol v2, by the SDK's own client of it."""
    async def text(message):
        return [piece async for piece in message.text]

    async with c.threads.stream(assistant_id="agent", transport=transport) as t:
        await t.run.start(input={"messages": [{"role": "user", "content": "hello"}]})
        words = [asyncio.create_task(text(m)) async for m in t.messages]
        assert [await w for w in words] == [["You ", "said: ", "hello"]]
    async with c.threads.stream(assistant_id="agent", transport=transport) as t:
        await t.run.start(input={"messages": [{"role": "user", "content": "weather in Rome"}]})
        async for _ in t.values:
            pass
        assert t.interrupted and len(t.interrupts) == 1, t.interrupts
        await t.run.respond("sunny")
        end = await t.output
        assert "You said: sunny" in str(end["messages"][-1]["content"]), end


async def everything(c, mark):
    called, mark = set(), f"{mark} {uuid.uuid4()}"

    class Client:
        pass

    counted = Client()
    for part in PARTS:
        setattr(counted, part, Counted(getattr(c, part), part, called))
    for play in (assistants, threads, runs, store, crons):
        await play(counted, mark)
        print(mark, play.__name__)
    wanted = {f"{part}.{n}" for part in PARTS for n, _ in inspect.getmembers(getattr(c, part), inspect.ismethod) if not n.startswith("_")}
    return wanted - called


# ELSEWHERE are called by other functions, or by no client of stele's server.
ELSEWHERE = {"threads.stream", "threads.join_stream"}


async def thread_stream(c):
    """The stream of all runs of a thread, whoever starts them."""
    t = (await c.threads.create())["thread_id"]
    seen = asyncio.Queue()

    async def listen():
        async for part in await c.threads.join_stream(t, stream_mode="run_modes"):
            await seen.put(part)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    end = asyncio.get_running_loop().time() + 15
    while seen.empty() and asyncio.get_running_loop().time() < end:
        await c.runs.wait(t, "counter", input={"n": 1})
        await asyncio.sleep(0.05)
    assert not seen.empty(), "the stream of a thread has no events"
    listening.cancel()


async def main(base):
    c = get_client(url=base)
    missed = await everything(c, "async") - ELSEWHERE
    assert not missed, f"methods that were not called: {missed}"
    await thread_stream(c)
    print("async threads.join_stream")
    for transport in ("sse", "websocket"):
        await asyncio.wait_for(streams(c, transport), 60)
        print("async threads.stream", transport)
    await c.aclose()


async def main_sync(base):
    missed = await everything(get_sync_client(url=base), "sync") - ELSEWHERE
    assert not missed, f"methods that were not called: {missed}"


asyncio.run(main(sys.argv[1]))
asyncio.run(main_sync(sys.argv[1]))
print("all methods")
