"""LangGraph's conformance suite, blocking and asyncio, also under kill -9.

In the mode restored the next server begins with what the bucket of the last one has.
STELE_RESTORES says at how many calls a server is killed there (40).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from bridges import Blocking
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from servers import Kills, end_server, restored_environment

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver

# At every so many calls the server is killed; 0: never.
RESTORES = int(os.environ.get("STELE_RESTORES") or 40)
KILLS = {"plain": 0, "kills": 10, "restored": RESTORES}


@pytest.mark.parametrize("mode", KILLS)
@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
async def test_conformance(
    make_directory: Callable[[], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blocking: bool,
    mode: str,
) -> None:
    killed: list[Kills] = []
    log = tmp_path / "restored"
    log.touch()
    if mode == "restored":
        for name, value in restored_environment(log).items():
            monkeypatch.setenv(name, value)

    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        directory = make_directory()
        made: SteleSaver
        # What is deferred may be lost with the disk.
        defer = mode != "restored"
        if blocking:
            made = SteleSaver.from_dir(directory, defer_writes=defer)
        else:
            made = AsyncSteleSaver.from_dir(directory, defer_writes=defer)
        if KILLS[mode]:
            killed.append(Kills(made, directory, every=KILLS[mode]))
        yield Blocking(made) if blocking else made
        await made.aclose()
        end_server(directory)

    report = await validate(checkpointer_test(name="stele")(saver))
    failures = {name: r.failures for name, r in report.results.items() if r.failures}
    assert not failures
    assert {name for name, r in report.results.items() if r.passed} == {
        capability.value for capability in ALL_CAPABILITIES
    }
    passed = sum(result.tests_passed for result in report.results.values())
    done = sum(kill.done for kill in killed)
    restored = len(log.read_text().splitlines())
    print(f"conformance: {passed} tests passed, {done} kills, {restored} restored")
    assert passed > 70
    # About 20; how many calls there are depends on which writes share one.
    assert mode != "kills" or done >= 10
    assert mode != "restored" or restored > 0


@pytest.mark.parametrize("kills", [False, True], ids=["plain", "kills"])
@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
async def test_delta_history(directory: Path, blocking: bool, kills: bool) -> None:
    """The history is what LangGraph's own walk along the parents finds."""
    made = SteleSaver.from_dir(directory)
    if kills:
        Kills(made, directory, every=3)
    saver: BaseCheckpointSaver[str] = Blocking(made) if blocking else made
    config: Any = {
        "configurable": {"thread_id": str(uuid.uuid4()), "checkpoint_ns": ""}
    }
    heads = []
    for step in range(6):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = f"{step:04}"
        versions = {"plain": f"{step + 1:032}.1"}
        checkpoint["channel_versions"] = {**versions, "d": "1"}
        checkpoint["channel_values"] = {"plain": step}
        if step == 2:
            checkpoint["channel_values"]["d"] = ["seed"]
            versions["d"] = "1"
        config = await saver.aput(config, checkpoint, {"step": step}, versions)
        heads.append(config)
        for task, path in (("t2", "b"), ("t1", "a"), ("t3", "a")):
            writes = [("d", f"{step}{task}"), ("plain", step), ("d", f"{step}{task}+")]
            await saver.aput_writes(config, writes, task, path)
    for head in heads:
        want = await BaseCheckpointSaver.aget_delta_channel_history(
            saver, config=head, channels=["d", "plain", "none"]
        )
        got = await saver.aget_delta_channel_history(
            config=head, channels=["d", "plain", "none"]
        )
        assert got == want
    assert await saver.aget_delta_channel_history(config=config, channels=[]) == {}
    made.close()
