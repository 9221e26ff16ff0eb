"""LangGraph's conformance suite, blocking and asyncio, also under kill -9."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from bridges import Blocking, Kills
from conftest import end_server
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver


@pytest.mark.parametrize("kills", [False, True], ids=["plain", "kills"])
@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
async def test_conformance(
    make_directory: Callable[[], Path], blocking: bool, kills: bool
) -> None:
    killed: list[Kills] = []

    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        directory = make_directory()
        made: SteleSaver
        if blocking:
            made = SteleSaver.from_dir(directory)
        else:
            made = AsyncSteleSaver.from_dir(directory)
        if kills:
            killed.append(Kills(made, directory, every=10))
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
    print(f"conformance: {passed} tests passed, {done} kills")
    assert passed > 70
    assert not kills or done > 20


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
