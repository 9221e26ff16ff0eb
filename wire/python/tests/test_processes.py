"""Four processes on one directory, any of them or the server killed at random.

STELE_KILLS says how often (50), STELE_SEED repeats a run's choices.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from conftest import stele
from servers import kill_server
from worker import TASKS, config

from langgraph.checkpoint.stele import SteleSaver
from langgraph.store.stele import SteleStore

KILLS = int(os.environ.get("STELE_KILLS") or 50)
WORKERS = 4


class Workers:
    """The processes, and what they have written down."""

    def __init__(self, directory: Path, journals: Path) -> None:
        self._directory = directory
        self._journals = journals
        self._processes = [self._start(i) for i in range(WORKERS)]

    def _start(self, i: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("worker.py"),
                self._directory,
                f"w{i}",
                self._journals / f"w{i}",
            ],
            stdin=subprocess.PIPE,
        )

    def kill(self, i: int) -> None:
        process = self._processes[i]
        assert process.poll() is None, f"worker {i} ended by itself: {process.poll()}"
        process.kill()
        process.communicate()
        self._processes[i] = self._start(i)

    def stop(self) -> None:
        for process in self._processes:
            process.communicate(timeout=120)
            assert process.returncode == 0

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def size(self) -> int:
        return sum(path.stat().st_size for path in self._journals.iterdir())

    def entries(self, i: int) -> list[dict[str, Any]]:
        lines = (self._journals / f"w{i}").read_text().splitlines()
        return [json.loads(line) for line in lines]


def test_four_processes_and_kills(directory: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("STELE_SEED") or random.randrange(1 << 32))
    print(f"STELE_SEED={seed}")
    rng = random.Random(seed)
    journals = tmp_path / "journals"
    journals.mkdir()
    workers = Workers(directory, journals)
    servers = 0
    try:
        for kill in range(KILLS):
            # The next kill comes after some more calls, wherever they are by then.
            size = workers.size() + rng.randrange(100, 4000)
            deadline = time.monotonic() + 120
            while workers.size() < size:
                assert time.monotonic() < deadline, "the load stands still"
                time.sleep(0.001)
            victim = rng.randrange(WORKERS + 3)
            if victim < WORKERS:
                workers.kill(victim)
            else:
                servers += kill_server(directory)
            if kill == KILLS // 2:
                backup = tmp_path / "backup"
                done = stele("backup", directory, backup)
                assert done.returncode == 0, done.stdout + done.stderr
                assert stele("verify", backup).returncode == 0
                assert stele("verify", directory).returncode == 0
        workers.stop()
    finally:
        workers.end()
    calls = 0
    with SteleSaver.from_dir(directory) as saver, SteleStore.from_dir(directory) as st:
        for i in range(WORKERS):
            entries = workers.entries(i)
            calls += len(entries)
            check(saver, st, f"w{i}", entries)
    print(f"{calls} calls, {servers} kills of a server, {KILLS - servers} of processes")
    done = stele("verify", directory)
    assert done.returncode == 0, done.stdout + done.stderr


def check(
    saver: SteleSaver, store: SteleStore, name: str, entries: list[dict[str, Any]]
) -> None:
    """Nothing that was acknowledged is lost, and nothing is there twice."""
    found = list(saver.list(config(name)))
    steps = [tup.checkpoint["channel_values"]["n"] for tup in found]
    assert steps == list(range(len(found), 0, -1)), f"{name}: steps are not a chain"
    by_id = {tup.checkpoint["id"]: tup for tup in found}
    for child, parent in itertools.pairwise(found):
        assert child.parent_config == parent.config
    copies: dict[str, int] = {}
    scratch = None
    items: dict[str, int] = {}
    for entry in entries:
        if "put" in entry:
            assert by_id[entry["put"]].metadata["step"] == entry["step"]
        elif "writes" in entry:
            writes = by_id[entry["writes"]].pending_writes or []
            step = by_id[entry["writes"]].metadata["step"]
            task = entry["task"]
            mine = [(channel, value) for t, channel, value in writes if t == task]
            assert mine == [("n", f"{step}{task}"), ("text", "w")]
        elif "copy" in entry:
            assert entry["copy"] not in copies
            copies[entry["copy"]] = entry["steps"]
        elif "scratch" in entry:
            scratch = entry["scratch"]
        elif "item" in entry:
            items[entry["item"]] = entry["step"]
    for tup in found:
        assert len(tup.pending_writes or []) <= 2 * len(TASKS)
    for target, length in copies.items():
        assert len(list(saver.list(config(target)))) == length
    if scratch is not None:
        left = [t.checkpoint["id"] for t in saver.list(config(f"{name}-scratch"))]
        # Of a worker that was killed on the way to it, the journal says nothing.
        assert left == [scratch], "a thread that was made anew is gone"
    for key, step in items.items():
        item = store.get((name,), key)
        assert item is not None and item.value["step"] >= step
