"""The programs of the design post on the three durability modes.

The post's saver sleeps and prints; this one records. Where the post changes
the mode and runs again, each mode has a thread here.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, Callable

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.types import Command, interrupt

from ..saver import RecordingSaver
from . import program

_MODES = ("sync", "async", "exit")


def _graph(saver: RecordingSaver, handle: Callable[[str, Any], list[str]]) -> Pregel:
    def node(channel: str, name: str, target: str) -> NodeBuilder:
        return (
            NodeBuilder()
            .subscribe_to(channel, read=False)
            .do(partial(handle, name))
            .write_to(target)
        )

    return Pregel(
        nodes={
            "foo1": node("foo", "foo1", "bar1"),
            "foo2": node("foo", "foo2", "bar2"),
            "bar1": node("bar1", "bar1", "output"),
            "bar2": node("bar2", "bar2", "output"),
        },
        channels={
            "foo": LastValue(str),
            "bar1": LastValue(str),
            "bar2": LastValue(str),
            "output": BinaryOperatorAggregate(list, operator.add),
        },
        input_channels=["foo"],
        output_channels=["output"],
        checkpointer=saver,
    )


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


@program("post_durability", "The design post's graph in sync, async and exit mode.")
def post_durability(saver: RecordingSaver) -> None:
    def handle(node: str, arg: Any) -> list[str]:
        return [node]

    def handle_with_interrupt(node: str, arg: Any) -> list[str]:
        if node == "bar1":
            interrupt("manual interrupt")
        return [node]

    for mode in _MODES:
        app = _graph(saver, handle)
        result = app.invoke({"foo": "start"}, _thread(f"123 {mode}"), durability=mode)
        assert result["output"] == ["bar1", "bar2"]
    for mode in _MODES:
        app = _graph(saver, handle_with_interrupt)
        config = _thread(f"123 {mode} interrupted")
        app.invoke({"foo": "start"}, config, durability=mode)
        app.invoke(Command(resume="go on"), config, durability=mode)
