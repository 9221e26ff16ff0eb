"""DeltaChannel: a channel stored as writes and an occasional snapshot."""

from __future__ import annotations

from typing import Annotated, Any, Sequence, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite

from ..saver import RecordingSaver
from . import program


def _extend(state: list[str], batches: Sequence[list[str]]) -> list[str]:
    return [*state, *(item for batch in batches for item in batch)]


class _State(TypedDict, total=False):
    often: Annotated[list[str], DeltaChannel(_extend, snapshot_frequency=3)]
    rarely: Annotated[list[str], DeltaChannel(_extend, snapshot_frequency=1000)]
    turn: int


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _graph(saver: RecordingSaver) -> Any:
    graph = StateGraph(_State)
    graph.add_node("a", lambda s: {"often": [f"a{s['turn']}"], "rarely": [f"ra{s['turn']}"]})
    graph.add_node("b", lambda s: {"often": [f"b{s['turn']}"]})
    graph.add_node("c", lambda s: {"rarely": [f"c sees {len(s['often'])}"]})
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge("a", "c")
    graph.add_edge("b", "c")
    graph.add_edge("c", END)
    return graph.compile(checkpointer=saver)


def _ask_histories(saver: RecordingSaver) -> None:
    """History of every checkpoint, of both channels, one channel and no channel."""
    saver.fixture.note("delta histories")
    for thread in sorted(saver.storage):
        for ns in sorted(saver.storage[thread]):
            here = {"thread_id": thread, "checkpoint_ns": ns}
            for checkpoint_id in sorted(saver.storage[thread][ns]):
                config: Any = {"configurable": {**here, "checkpoint_id": checkpoint_id}}
                saver.get_delta_channel_history(config=config, channels=["often", "rarely"])
            latest: Any = {"configurable": here}
            for channels in (["rarely"], ["turn", "often"], ["absent"], []):
                saver.get_delta_channel_history(config=latest, channels=channels)
    unknown: Any = {"configurable": {"thread_id": "nobody", "checkpoint_ns": ""}}
    saver.get_delta_channel_history(config=unknown, channels=["often"])


@program("delta", "DeltaChannel: snapshots, long chains, overwrites, forks, exit durability.")
def delta(saver: RecordingSaver) -> None:
    app = _graph(saver)
    config = _thread("sync")
    for turn in range(7):
        app.invoke({"turn": turn, "often": [f"in{turn}"]}, config, durability="sync")
    app.get_state(config)

    history = list(app.get_state_history(config))
    fork = app.update_state(history[6].config, {"often": ["edited"]}, as_node="a")
    app.invoke(None, fork)
    # A checkpoint whose own delta writes led elsewhere: the branch has to snapshot.
    app.invoke(None, history[9].config)
    app.update_state(config, {"rarely": Overwrite(["fresh"])}, as_node="c")
    app.invoke({"turn": 100}, config)

    config = _thread("exit")
    for turn in range(5):
        app.invoke({"turn": turn, "rarely": [f"in{turn}"]}, config, durability="exit")
    app.get_state(config)
    _ask_histories(saver)
