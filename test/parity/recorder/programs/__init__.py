"""The recorded programs, by the name of their fixture."""

from __future__ import annotations

import dataclasses
from typing import Callable

from .. import determinism
from ..audit import audit
from ..fixture import Fixture
from ..saver import RecordingSaver


@dataclasses.dataclass(frozen=True)
class Program:
    about: str
    run: Callable[[RecordingSaver], None]
    saver: type[RecordingSaver]


PROGRAMS: dict[str, Program] = {}


def program(
    name: str, about: str, *, saver: type[RecordingSaver] = RecordingSaver
) -> Callable[[Callable[[RecordingSaver], None]], Callable[[RecordingSaver], None]]:
    """Registers a function as the program behind the fixture ``name``."""

    def register(run: Callable[[RecordingSaver], None]) -> Callable[[RecordingSaver], None]:
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(about, run, saver)
        return run

    return register


def record(name: str, releases: dict[str, str]) -> Fixture:
    """Runs one program from a clean start and audits what it left behind."""
    determinism.reset(name)
    chosen = PROGRAMS[name]
    fixture = Fixture(name, chosen.about, releases)
    saver = chosen.saver(fixture)
    chosen.run(saver)
    audit(saver)
    return fixture


from . import (  # noqa: E402, F401
    async_agent,
    chat,
    delta,
    failures,
    fanout,
    forks,
    functional,
    interrupts,
    kinds,
    metadata,
    post_durability,
    post_state,
    rebirth,
    saver_edges,
    subgraphs,
    threads,
    tools,
)
