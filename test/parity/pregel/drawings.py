"""Draws graphs with LangGraph, in Mermaid: python drawings.py file"""

import sys
from typing import Any, Literal, TypedDict

from langgraph.channels import LastValue
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.types import Command


class State(TypedDict):
    n: int


def f(_: Any) -> dict:
    return {"n": 1}


def built(nodes: str, *edges: Any, **compile: Any) -> Any:
    """A graph of nodes with letters for names and edges like "ab"; ^ and $ are START
    and END."""
    name = {"^": START, "$": END}
    b = StateGraph(State)
    for n in nodes:
        b.add_node(n, f)
    for e in edges:
        if isinstance(e, str):
            b.add_edge(name.get(e[0], e[0]), name.get(e[1], e[1]))
        elif isinstance(e[0], list):
            b.add_edge(*e)
        else:
            b.add_conditional_edges(name.get(e[0], e[0]), lambda _: "a", *e[1:])
    return b.compile(**compile)


def graphs() -> Any:
    yield "no end", built("ab", "^a", "ab")
    yield "line", built("ab", "^a", "ab", "b$")
    yield "labels", built("abc", "^a", ("a", {"yes": "b", "no": "c", "stop": END}), "bc")
    yield "ends", built("ab", "^a", ("a", ["b", END]), "ba")
    yield "open", built("ab", "^a", ("a",))
    yield "at start", built("ab", ("^", ["a", "b"]))
    yield "edge and branch", built("ab", "^a", "ab", ("a", ["b", END]))
    yield "end beside an edge", built("ab", "^a", "ab", "a$")
    yield "unreached", built("abc", "^a", "ab", "cb")
    yield "loop", built("a", "^a", "aa")
    yield "circle", built("ab", "^a", "ab", "ba")
    yield "circle of three", built("abc", "^a", "ab", "bc", "ca")
    yield "long label", built("a", "^a", ("a", {"again, and": "a", "one two three four five six seven eight nine ten": END}))
    yield "breakpoints", built("abc", "^a", "ab", "bc", interrupt_before=["a", "c"], interrupt_after=["b", "c"])
    yield "join", built("abcd", "^a", "^b", "^d", (["b", "a"], "c"), "cd")
    b = StateGraph(State)
    b.add_node("a", f).add_node("b", f, defer=True).add_edge(START, "a").add_edge("a", "b")
    yield "deferred", b.compile()
    b = StateGraph(State)
    b.add_node("é x", f, metadata={"flag": True, "n": 1, "why": "x [y]"}).add_node("a-b_c.d", f).add_node("_it_", f)
    b.add_edge(START, "é x").add_edge("é x", "a-b_c.d").add_edge("a-b_c.d", "_it_")
    yield "names", b.compile()
    b = StateGraph(State)

    def goes(_: Any) -> Command[Literal["b", "__end__"]]:
        return Command(goto="b")

    b.add_node("a", goes).add_node("b", f).add_edge(START, "a")
    yield "commands", b.compile()
    b = StateGraph(State)
    b.add_node("a", built("z", "^z")).add_node("b", f).add_edge(START, "a").add_edge("a", "b")
    yield "inside", b.compile()
    one = NodeBuilder().subscribe_only("x").do(f).write_to("y")
    two = NodeBuilder().subscribe_only("y").do(f).write_to("z")
    yield "raw", Pregel(nodes={"one": one, "two": two}, channels={k: LastValue(int) for k in "xyz"}, input_channels="x", output_channels="z")

    @entrypoint()
    def flow(n: int) -> int:
        return n

    yield "function", flow


def around(inside: Any, *edges: Any, nodes: str = "ab") -> Any:
    """A graph of a graph inside, x, and nodes beside it."""
    name = {"^": START, "$": END}
    b = StateGraph(State)
    b.add_node("x", inside)
    for n in nodes:
        b.add_node(n, f)
    for e in edges:
        if isinstance(e, str):
            b.add_edge(name.get(e[0], e[0]), name.get(e[1], e[1]))
        else:
            b.add_conditional_edges(name.get(e[0], e[0]), lambda _: "a", *e[1:])
    return b.compile()


def drawn_inside() -> Any:
    """Graphs that are drawn with those inside, and how deep."""
    line = built("yz", "^y", "yz", "z$")
    inner = around(line, "^a", "ax", "xb")
    yield "inside: line", around(line, "^a", "ax", "xb"), True
    yield "inside: first", around(line, "^x", "xa", "ab"), True
    yield "inside: alone", around(line, "^x", nodes=""), True
    yield "inside: one node", around(built("z", "^z"), "^a", "ax", "xb"), True
    yield "inside: fan", around(built("wyz", "^w", "wy", "wz"), "^a", "ax", "xb"), True
    yield "inside: two starts", around(built("yz", "^y", "^z"), "^a", "ax", "xb"), True
    yield "inside: branch", around(built("yz", "^y", ("y", {"go": "z", "stop": END})), "^a", "ax", "xb"), True
    yield "inside: loop", around(built("yz", "^y", "yy", "yz"), "^a", "ax", "xb"), True
    yield "inside: in a loop", around(line, "^a", "ax", ("x", ["a", "b"])), True
    yield "inside: to itself", around(line, "^x", ("x", ["x", END]), nodes=""), True
    yield "inside: never ends", around(built("yz", "^y", "yz", "zy"), "^a", "ax", "xb"), True
    yield "inside: breakpoint", around(built("yz", "^y", "yz", interrupt_before=["y"]), "^a", "ax", "xb"), True
    b = StateGraph(State)
    b.add_node("o", inner).add_node("q", f).add_edge(START, "o").add_edge("o", "q")
    two = b.compile()
    yield "inside: two levels, one drawn", two, 1
    yield "inside: two levels", two, True
    b = StateGraph(State)
    b.add_node("o", line).add_node("p", line).add_edge(START, "o").add_edge("o", "p")
    yield "inside: twice", b.compile(), True


with open(sys.argv[1], "w", encoding="utf-8") as out:
    for name, g in graphs():
        out.write(f"=== {name}\n{g.get_graph().draw_mermaid()}")
    for name, g, depth in drawn_inside():
        out.write(f"=== {name}\n{g.get_graph(xray=depth).draw_mermaid()}")
