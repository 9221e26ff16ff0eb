"""`langgraph dev` with checkpointer.path and store.path in langgraph.json."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conftest import need, stele
from servers import kill_server

from langgraph.checkpoint.stele import SteleSaver
from langgraph.store.stele import SteleStore

need(find_spec("langgraph_api"), "langgraph-cli[inmem]")
from langgraph_sdk import get_client  # noqa: E402

GRAPH = """
from typing import Annotated, TypedDict
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
import operator

class State(TypedDict):
    log: Annotated[list, operator.add]

async def remember(state):
    await get_store().aput(("users", "1"), "name", {"first": "Ada"})
    return {"log": ["remembered"]}

async def ask(state):
    return {"log": [interrupt("May I?")]}

graph = (
    StateGraph(State).add_node(remember).add_node(ask)
    .add_edge(START, "remember").add_edge("remember", "ask").compile()
)
"""

PERSISTENCE = """
from langgraph.checkpoint.stele import AsyncSteleSaver
from langgraph.store.stele import AsyncSteleStore

def saver():
    return AsyncSteleSaver.from_dir({directory!r})

store = AsyncSteleStore.from_dir({directory!r})
"""


def free_port() -> int:
    """A port that no system gives to who asks for any, unless it is told to."""
    while True:
        port = random.randrange(15000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def dev(project: Path) -> Iterator[str]:
    """`langgraph dev` for a project; its URL."""
    port = free_port()
    log = (project / "log").open("ab")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload",
            "--port", str(port),
        ],
        cwd=project,
        env={**os.environ, "LANGSMITH_TRACING": "false"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    except BaseException:
        print((project / "log").read_text("utf-8", "replace")[-20_000:])
        raise
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


async def ready(url: str) -> Any:
    client = get_client(url=url)
    for _ in range(1800):
        try:
            await client.assistants.search()
        except Exception:
            await asyncio.sleep(0.1)
        else:
            return client
    raise TimeoutError("langgraph dev did not start")


async def test_langgraph_dev(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text(GRAPH)
    (tmp_path / "persistence.py").write_text(
        PERSISTENCE.format(directory=str(directory))
    )
    (tmp_path / "langgraph.json").write_text(
        json.dumps(
            {
                "dependencies": ["."],
                "graphs": {"g": "./graph.py:graph"},
                "checkpointer": {"path": "./persistence.py:saver"},
                "store": {"path": "./persistence.py:store"},
            }
        )
    )
    with dev(tmp_path) as url:
        client = await ready(url)
        thread = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread, "g", input={"log": ["start"]})
        state = await client.threads.get_state(thread)
        assert state["values"]["log"] == ["start", "remembered"]
        assert state["next"] == ["ask"]
        item = await client.store.get_item(["users", "1"], "name")
        assert item["value"] == {"first": "Ada"}
        kill_server(directory)
        copy = (await client.threads.copy(thread))["thread_id"]
        answer = await client.runs.wait(copy, "g", command={"resume": "yes"})
        assert answer["log"] == ["start", "remembered", "yes"]
        assert len(await client.threads.get_history(copy)) == 4
        rolled = await client.runs.create(
            thread, "g", command={"resume": "no"}, multitask_strategy="rollback"
        )
        await client.runs.join(thread, rolled["run_id"])
        await client.threads.delete(copy)
    assert stele("verify", directory).returncode == 0
    with SteleSaver.from_dir(directory) as saver, SteleStore.from_dir(directory) as st:
        config: Any = {"configurable": {"thread_id": thread}}
        found = saver.get_tuple(config)
        assert found is not None
        log = found.checkpoint["channel_values"]["log"]
        assert log == ["start", "remembered", "no"]
        assert saver.get_tuple({"configurable": {"thread_id": copy}}) is None
        assert [item.key for item in st.search(("users",))] == ["name"]
