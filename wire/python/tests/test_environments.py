"""Containers: nothing can be written to but the volume, and little else is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import end_server

from langgraph.checkpoint.stele._endpoint import find_binary

# The root becomes read-only, with all that is mounted in it, and the volume stays.
READ_ONLY = """
set -e
mount --bind "$1" "$1"
while read -r _ at _ options _; do
	case $at in "$1" | /proc* | /sys* | /dev*) continue ;; esac
	mount -o remount,bind,ro "$at" 2>/dev/null || true
done </proc/mounts
shift
exec "$@"
"""

PROGRAM = """
import asyncio, os, sys
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver
from langgraph.store.stele import SteleStore

for tmp in ("/tmp", "/var/tmp", "/"):
    try:
        open(os.path.join(tmp, "stele-test"), "w")
    except OSError:
        continue
    sys.exit(f"{tmp} can be written to")
config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
at = dict(binary=sys.argv[2], idle_exit=0.2)


async def again():
    async with AsyncSteleSaver.from_dir(sys.argv[1], **at) as saver:
        assert await saver.aget_tuple(config) is not None
        await saver.aput(config, empty_checkpoint(), {"step": 2}, {})


with SteleSaver.from_dir(sys.argv[1], **at) as saver:
    saver.put(config, empty_checkpoint(), {"step": 1}, {})
    with SteleStore.from_dir(sys.argv[1], **at) as store:
        store.put(("a",), "k", {"v": 1})
        assert store.get(("a",), "k").value == {"v": 1}
asyncio.run(again())
"""


@pytest.mark.parametrize("user", ["root", "without a passwd entry"])
@pytest.mark.parametrize("place", ["", "store", "x" * 120])
def test_nothing_is_writable_but_the_volume(
    make_directory: Callable[[], Path], user: str, place: str
) -> None:
    volume: Path = make_directory()
    volume.mkdir()
    (volume / "lost+found").mkdir()
    directory = volume / place
    unshare = [shutil.which("unshare") or "", "--mount", "sh", "-c", READ_ONLY, "sh"]
    allowed = [*unshare[:2], "mount", "--bind", "/", "/"]
    if os.geteuid() != 0 or not unshare[0] or subprocess.run(allowed).returncode:
        pytest.skip("may not mount")
    program = [sys.executable, "-c", PROGRAM, str(directory), find_binary()]
    if user != "root":
        os.chown(volume, 70001, 70001)
        # The interpreter may lie where only root looks: it may read all.
        caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        who = ["--reuid=70001", "--regid=70001", "--clear-groups"]
        program = [shutil.which("setpriv") or "setpriv", *who, *caps, *program]
    program = [*unshare, str(volume), *program]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    done = subprocess.run(
        program, env=environment, cwd="/", capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    end_server(directory)
    owner = 0 if user == "root" else 70001
    files = [path for path in directory.iterdir() if path.name != "lost+found"]
    assert {path.stat().st_uid for path in files} == {owner}
    assert not [path for path in files if path.name.startswith("serve.start")]
