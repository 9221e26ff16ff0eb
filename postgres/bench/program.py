"""LangGraph's side of the figures: the line of nodes on AsyncPostgresSaver.

Reads one request a line and answers each with one line, both JSON:

    {"url": "host=localhost user=postgres dbname=python", "threads": 8, "seconds": 3, "nodes": 20}
    {"seconds": 3.1, "cpu": 2.9, "supersteps": 1240}

threads is how many run side by side, each on threads of its own, one after another. A
request with "chat" makes one chat of so many steps instead, one with "prune" keeps its newest
checkpoint alone. The connections are opened with the first request, and kept.
"""

import asyncio
import json
import operator
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


class Summed(TypedDict):
    sum: Annotated[int, operator.add]


class Chatted(TypedDict):
    messages: Annotated[list[str], operator.add]


def line(n):
    async def node(state):
        return {"sum": 1}

    g = StateGraph(Summed)
    last = START
    for i in range(n):
        name = f"node{i:02d}"
        g.add_node(name, node)
        g.add_edge(last, name)
        last = name
    return g


def chat():
    text = "words and " * 40

    async def model(state):
        return {"messages": [text]}

    g = StateGraph(Chatted)
    g.add_node("model", model)
    g.add_edge(START, "model")
    return g, {"messages": [text]}


async def measure(r, saver):
    if r.get("chat"):
        g, given = chat()
        app = g.compile(checkpointer=saver)
        for _ in range(r["chat"] // 2):
            await app.ainvoke(given, {"configurable": {"thread_id": "chat"}})
        return {"supersteps": r["chat"]}
    if r.get("prune"):
        await saver.aprune(["chat"], strategy="keep_latest")
        return {"supersteps": 0}
    app = line(r["nodes"]).compile(checkpointer=saver)
    begin, computed = time.perf_counter(), time.process_time()
    done = 0

    async def one(k):
        nonlocal done
        n = 0
        while time.perf_counter() - begin < r["seconds"]:
            at = {"configurable": {"thread_id": f"{begin}-{k}-{n}"}}
            state = await app.ainvoke({"sum": 0}, at)
            assert state["sum"] == r["nodes"]
            n += 1
            done += r["nodes"] + 1

    await asyncio.gather(*(one(k) for k in range(r["threads"])))
    return {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - computed, "supersteps": done}


async def main():
    r = json.loads(sys.stdin.readline())
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(r["url"], max_size=16, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        while True:
            print(json.dumps(await measure(r, saver)), flush=True)
            text = await asyncio.to_thread(sys.stdin.readline)
            if not text:
                return
            r = json.loads(text)


asyncio.run(main())
