"""The graph of the benchmark: three nodes that do next to nothing."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


def node(name):
    def run(state: State):
        return {"log": [name]}

    return run


builder = StateGraph(State)
before = START
for name in ("a", "b", "c"):
    builder.add_node(name, node(name))
    builder.add_edge(before, name)
    before = name
graph = builder.compile()
