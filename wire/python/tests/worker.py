"""One process of the load: it writes down every call that was acknowledged.

    python worker.py DIRECTORY NAME JOURNAL

Each thread is written by one worker, so what a worker has not written down was never
acknowledged. A worker that is started again goes on where the store, not its journal,
says it is. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.stele import SteleSaver
from langgraph.store.stele import SteleStore

TASKS = ("t1", "t2")


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


class Journal:
    """Lines that survive the process, though not the machine."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, **entry: Any) -> None:
        os.write(self._fd, json.dumps(entry).encode() + b"\n")


def next_checkpoint(head: Any, step: int) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"n": step, "text": "x" * 500}
    checkpoint["channel_versions"] = {"n": f"{step:032}.1", "text": "1"}
    return checkpoint


async def work(directory: str, name: str, journal: Journal, stop: Any) -> None:
    saver = SteleSaver.from_dir(directory, max_connections=4)
    store = SteleStore.from_dir(directory)
    head = saver.get_tuple(config(name))
    step = 0 if head is None else head.checkpoint["channel_values"]["n"]
    copies = sum(1 for _ in saver.threads(prefix=f"{name}-copy-"))
    at: Any = config(name) if head is None else head.config
    while not stop.is_set():
        step += 1
        checkpoint = next_checkpoint(head, step)
        new = dict(checkpoint["channel_versions"])
        if step > 1:
            del new["text"]
        metadata: Any = {"step": step, "source": "loop"}
        # Every other round by asyncio.
        if step % 2:
            at = saver.put(at, checkpoint, metadata, new)
        else:
            at = await saver.aput(at, checkpoint, metadata, new)
        journal.add(put=checkpoint["id"], step=step)
        for task in TASKS:
            writes = [("n", f"{step}{task}"), ("text", "w")]
            if step % 2:
                saver.put_writes(at, writes, task)
            else:
                await saver.aput_writes(at, writes, task)
            journal.add(writes=checkpoint["id"], task=task)
        if step % 5 == 0:
            # Done twice it would be the error that the thread exists.
            target = f"{name}-copy-{copies}"
            saver.copy_thread(name, target)
            journal.add(copy=target, steps=step)
            copies += 1
        if step % 7 == 0:
            # Deleted twice, the thread that was made anew would be gone.
            scratch = f"{name}-scratch"
            journal.add(scratch=None)
            saver.delete_thread(scratch)
            again = next_checkpoint(None, step)
            saver.put(config(scratch), again, metadata, dict(again["channel_versions"]))
            journal.add(scratch=again["id"])
        store.put((name,), str(step % 10), {"step": step})
        journal.add(item=str(step % 10), step=step)
    saver.close()
    store.close()


def main() -> None:
    directory, name, path = sys.argv[1:]
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    asyncio.run(work(directory, name, Journal(path), stop))


if __name__ == "__main__":
    main()
