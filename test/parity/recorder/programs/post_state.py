"""The programs of the design post on reading persisted state.

Each ran on a thread named 123 of a saver of its own; here they share a saver
and have a thread each. What they print is left out, what they ask is kept.
"""

from __future__ import annotations

import operator
from typing import Any

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.errors import GraphInterrupt
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.pregel._read import PregelNode
from langgraph.pregel._write import ChannelWrite, ChannelWriteTupleEntry
from langgraph.types import Send, interrupt

from ..saver import RecordingSaver
from . import program


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _reads_a_tuple(saver: RecordingSaver) -> None:
    def handle(node_name: str, interrupted: bool = False) -> list[str]:
        if interrupted:
            raise GraphInterrupt("manual interrupt")
        return [node_name]

    foo = (
        NodeBuilder()
        .subscribe_to("foo")
        .do(lambda _: handle("foo"))
        .write_to(nodes=lambda x: x, bar=lambda _: "triggered by foo")
    )
    bar1 = (
        NodeBuilder()
        .subscribe_to("bar")
        .do(lambda _: handle("bar1", interrupted=True))
        .write_to("nodes")
    )
    bar2 = NodeBuilder().subscribe_to("bar").do(lambda _: handle("bar2")).write_to("nodes")
    app = Pregel(
        nodes={"foo": foo, "bar1": bar1, "bar2": bar2},
        channels={
            "foo": LastValue(str),
            "bar": LastValue(str),
            "nodes": BinaryOperatorAggregate(list, operator.add),
        },
        checkpointer=saver,
        input_channels=["foo"],
        output_channels=["nodes"],
    )
    config = _thread("123 tuple")
    result = app.invoke({"foo": "triggered by user"}, config=config)
    assert result["nodes"] == ["foo", "bar2"]
    assert saver.get_tuple(config) is not None


def _reads_history(saver: RecordingSaver) -> None:
    def handle(node_name: str, halt: bool, raise_error: bool) -> None:
        if halt:
            interrupt(f"Manually be interrupted at {node_name}")
        if raise_error:
            raise Exception(f"Manually raised error at {node_name}")

    def node(channel: str, name: str, halt: bool = False, fails: bool = False) -> NodeBuilder:
        return (
            NodeBuilder()
            .subscribe_to(channel, read=False)
            .do(lambda _: handle(name, halt=halt, raise_error=fails))
        )

    app = Pregel(
        nodes={
            "foo": node("foo", "foo").write_to(bar=lambda _: None),
            "bar1": node("bar", "bar1"),
            "bar2": node("bar", "bar2", halt=True),
            "bar3": node("bar", "bar3", fails=True),
        },
        channels={"foo": LastValue(str), "bar": LastValue(str)},
        input_channels=["foo"],
        output_channels=[],
        checkpointer=saver,
    )
    config = _thread("123 history")
    try:
        app.invoke(input={"foo": "begin"}, config=config)
    except Exception as error:
        assert "Manually raised" in str(error)
    assert len(list(app.get_state_history(config))) == 2


def _reads_task_paths(saver: RecordingSaver) -> None:
    entry = ChannelWriteTupleEntry(lambda args: [("__pregel_tasks", args)])
    foo: PregelNode = (
        NodeBuilder()
        .subscribe_to("foo")
        .do(lambda _: [Send(node=node, arg="foo") for node in ["bar1", "bar2", "bar3"]])
    ).build()
    foo.writers.append(ChannelWrite(writes=[entry]))
    bars = {name: NodeBuilder() for name in ["bar1", "bar2", "bar3"]}
    app = Pregel(
        nodes={"foo": foo, **bars},
        channels={"foo": LastValue(None)},
        input_channels=["foo"],
        output_channels=[],
        checkpointer=saver,
    )
    config = _thread("123 paths")
    app.invoke(input={"foo": None}, config=config, interrupt_before="bar2")
    paths = [task.path for task in app.get_state(config).tasks]
    assert paths == [("__pregel_push", i, False) for i in range(3)]


def _reads_nested_state(saver: RecordingSaver) -> None:
    sub_node = NodeBuilder().subscribe_to("start").do(lambda _: interrupt("manual interrupt"))
    sub_graph = Pregel(
        nodes={"sub_node": sub_node},
        channels={"start": LastValue(str)},
        input_channels=["start"],
        output_channels=[],
    )

    def handle(args: dict[str, Any]) -> None:
        sub_graph.invoke(input={"start": "begin"})
        interrupt("main graph interrupt")

    app = Pregel(
        nodes={"main_node": NodeBuilder().subscribe_to("start").do(handle)},
        channels={"start": LastValue(str)},
        input_channels=["start"],
        output_channels=[],
        checkpointer=saver,
    )
    config = _thread("123 nested")
    app.invoke(input={"start": "begin"}, config=config)
    snapshot = app.get_state(config, subgraphs=True)
    assert snapshot.tasks[0].state.tasks[0].name == "sub_node"


@program("post_state", "The four programs of the design post on extracting persisted state.")
def post_state(saver: RecordingSaver) -> None:
    _reads_a_tuple(saver)
    _reads_history(saver)
    _reads_task_paths(saver)
    _reads_nested_state(saver)
