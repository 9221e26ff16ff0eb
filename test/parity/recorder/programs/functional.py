"""The functional API: entrypoints, tasks, what they keep between runs."""

from __future__ import annotations

from typing import Any

from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from ..saver import RecordingSaver
from . import program


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _one_thread(graph: Any) -> Any:
    """Entrypoints stream eagerly, with a thread that only waits for output; not here."""
    graph.stream_eager = False
    return graph


@task
def double(number: int) -> int:
    return 2 * number


@task
def confirm(text: str) -> str:
    return f"{text}: {interrupt(f'{text}?')}"


@task
def outer(number: int) -> int:
    return double(number).result() + 1


def _accumulates(saver: RecordingSaver) -> None:
    @entrypoint(checkpointer=saver)
    def total(number: int, *, previous: Any = None) -> Any:
        doubled = [double(number + i) for i in range(3)]
        value = sum(one.result() for one in doubled) + (previous or 0)
        return entrypoint.final(value={"returned": value}, save=value)

    _one_thread(total)
    for number in (1, 10, 100):
        total.invoke(number, _thread("accumulates"))


def _asks(saver: RecordingSaver) -> None:
    @entrypoint(checkpointer=saver)
    def dialogue(text: str) -> list[Any]:
        first = double(len(text)).result()
        second = confirm(text).result()
        third = interrupt("at the end?")
        return [first, second, third]

    config = _thread("asks")
    _one_thread(dialogue)
    dialogue.invoke("really", config)
    dialogue.get_state(config)
    dialogue.invoke(Command(resume="yes"), config)
    dialogue.invoke(Command(resume="of course"), config)
    dialogue.get_state(config)


def _nested_and_failing(saver: RecordingSaver) -> None:
    tries = 0

    @task
    def sometimes() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("first try")
        return "second try"

    @entrypoint(checkpointer=saver)
    def work(number: int) -> Any:
        before = outer(number).result()
        return [before, sometimes().result()]

    config = _thread("nested")
    _one_thread(work)
    try:
        work.invoke(20, config)
    except ConnectionError:
        work.invoke(None, config)
    work.invoke(21, config)


@program("functional", "The functional API: tasks, saved values, interrupts, a failing task.")
def functional(saver: RecordingSaver) -> None:
    _accumulates(saver)
    _asks(saver)
    _nested_and_failing(saver)
