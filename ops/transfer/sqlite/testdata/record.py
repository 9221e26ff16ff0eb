"""Records files of LangGraph's SQLite savers, and what LangGraph itself reads of them.

    record.py graphs FILE   runs real graphs on a new file
    record.py old FILE      runs a small graph on a new file; for old releases
    record.py show FILE     prints all tuples of a file, a line of JSON for each
    record.py resume WHERE  goes on with threads of graphs in a file or a database, and prints
                            their states
    record.py ask URL       sets a database up, and runs a graph that waits for an answer
    record.py pg URL        prints all tuples of a database, as LangGraph's saver on PostgreSQL
                            reads them

record.sh says with which releases the files of this directory were made.
"""

import json
import operator
import sqlite3
import sys
from typing import Annotated, TypedDict


def typed(serde, value):
    kind, data = serde.dumps_typed(value)
    return [kind, data.hex()]


def shown(saver, tup):
    cp = tup.checkpoint
    conf = tup.config["configurable"]
    return {
        "thread": conf["thread_id"],
        "ns": conf["checkpoint_ns"],
        "id": conf["checkpoint_id"],
        "parent": tup.parent_config["configurable"]["checkpoint_id"] if tup.parent_config else "",
        "v": cp["v"],
        "ts": cp["ts"],
        "versions": cp["channel_versions"],
        "seen": cp["versions_seen"],
        "updated": cp.get("updated_channels"),
        "metadata": tup.metadata,
        "values": {k: typed(saver.serde, v) for k, v in cp["channel_values"].items()},
        "writes": sorted([task, channel, typed(saver.serde, value)] for task, channel, value in tup.pending_writes),
    }


def dump(saver):
    lines = [shown(saver, tup) for tup in saver.list(None)]
    lines.sort(key=lambda t: (t["thread"], t["ns"], t["id"]))
    for line in lines:
        print(json.dumps(line))


def asking(saver):
    """A graph whose inner graph asks a question."""
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    class Inner(TypedDict):
        text: str

    def ask(state):
        return {"text": state["text"] + " " + interrupt({"question": "may I?", "about": state["text"]})}

    inner = StateGraph(Inner)
    inner.add_node("prepare", lambda s: {"text": s["text"].upper()})
    inner.add_node("ask", ask)
    inner.add_edge(START, "prepare")
    inner.add_edge("prepare", "ask")
    inner = inner.compile()
    outer = StateGraph(Inner)
    outer.add_node("inner", inner)
    outer.add_node("after", lambda s: {"text": s["text"] + "!"})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "after")
    return outer.compile(checkpointer=saver)


def logging(saver):
    """A graph with a delta channel."""
    from langgraph.channels import DeltaChannel
    from langgraph.graph import START, StateGraph

    class Log(TypedDict):
        log: Annotated[list, DeltaChannel(lambda state, writes: state + [x for w in writes for x in w], snapshot_frequency=3)]

    delta = StateGraph(Log)
    delta.add_node("step", lambda s: {"log": [f"step {len(s['log'])}"]})
    delta.add_edge(START, "step")
    return delta.compile(checkpointer=saver)


def graphs(conn):
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph, add_messages
    from langgraph.types import Command, Send

    saver = SqliteSaver(conn)

    class Chat(TypedDict):
        messages: Annotated[list, add_messages]
        profile: dict

    def answer(state):
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n}", id=f"a{n}", response_metadata={"n": n})]}

    def remember(state):
        return {"profile": {"name": "Ada", "likes": ["tea", 1.0, None, True]}} if not state.get("profile") else {}

    chat = StateGraph(Chat)
    chat.add_node("answer", answer)
    chat.add_node("remember", remember)
    chat.add_edge(START, "answer")
    chat.add_edge("answer", "remember")
    chat.add_edge("remember", END)
    chat = chat.compile(checkpointer=saver)
    conf = {"configurable": {"thread_id": "chat", "user": "ada"}, "metadata": {"score": 0.5, "whole": 1.0}}
    for n in range(4):
        chat.invoke({"messages": [HumanMessage(f"question {n} é 😀", id=f"h{n}")]}, conf)
    # A fork from the middle of the thread.
    history = list(chat.get_state_history(conf))
    old = history[len(history) // 2].config
    chat.update_state(old, {"profile": {"name": "Grace"}}, as_node="remember")

    class Fan(TypedDict):
        items: list
        out: Annotated[list, operator.add]

    fan = StateGraph(Fan)
    fan.add_node("plan", lambda s: {"items": [1, 2, 3]})
    fan.add_node("work", lambda s: {"out": [s["n"] * 10]})
    fan.add_node("sum", lambda s: {"out": [sum(s["out"])]})
    fan.add_edge(START, "plan")
    fan.add_conditional_edges("plan", lambda s: [Send("work", {"n": n}) for n in s["items"]], ["work"])
    fan.add_edge("work", "sum")
    fan = fan.compile(checkpointer=saver)
    fan.invoke({"items": [], "out": []}, {"configurable": {"thread_id": "fan"}})

    outer = asking(saver)
    outer.invoke({"text": "waits"}, {"configurable": {"thread_id": "waiting"}})
    outer.invoke({"text": "goes on"}, {"configurable": {"thread_id": "resumed"}})
    outer.invoke(Command(resume="yes"), {"configurable": {"thread_id": "resumed"}})

    delta = logging(saver)
    for n in range(4):
        delta.invoke({"log": [f"input {n}"]}, {"configurable": {"thread_id": "delta"}})

    class Plain(TypedDict):
        a: Annotated[list, operator.add]

    def fails(state):
        raise ValueError("this node fails")

    both = StateGraph(Plain)
    both.add_node("good", lambda s: {"a": [b"\x00\xff", None, {1, 2}]})
    both.add_node("bad", fails)
    both.add_edge(START, "good")
    both.add_edge(START, "bad")
    both = both.compile(checkpointer=saver)
    try:
        both.invoke({"a": ["begin"]}, {"configurable": {"thread_id": "failed"}})
    except ValueError:
        pass


def resume(saver):
    from langgraph.types import Command

    outer, delta = asking(saver), logging(saver)
    waiting, log = ({"configurable": {"thread_id": thread}} for thread in ("waiting", "delta"))
    print(json.dumps(delta.get_state(log).values))
    for state in delta.get_state_history(log):
        print(json.dumps([state.metadata["step"], state.values]))
    print(json.dumps(outer.invoke(Command(resume="yes"), waiting)))
    print(json.dumps(delta.invoke({"log": ["more"]}, log)))


def old(conn):
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, StateGraph

    try:
        from langgraph.constants import Send
    except ImportError:
        Send = None

    saver = SqliteSaver(conn)

    class State(TypedDict):
        items: Annotated[list, operator.add]

    graph = StateGraph(State)
    graph.add_node("plan", lambda s: {"items": ["plan"]})
    graph.add_node("work", lambda s: {"items": [s["n"]]})
    graph.add_node("last", lambda s: {"items": ["last"]})
    graph.set_entry_point("plan")
    graph.add_conditional_edges("plan", lambda s: [Send("work", {"n": 1}), Send("work", {"n": 2})], ["work"])
    graph.add_edge("work", "last")
    graph.add_edge("last", END)
    graph = graph.compile(checkpointer=saver, interrupt_before=["work"])
    for thread, steps in (("done", 2), ("stopped", 1)):
        conf = {"configurable": {"thread_id": thread}}
        graph.invoke({"items": ["in"]}, conf)
        for _ in range(steps - 1):
            graph.invoke(None, conf)


def main():
    command, where = sys.argv[1:]
    if where.startswith("host="):
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(where) as saver:
            if command == "ask":
                saver.setup()
                asking(saver).invoke({"text": "waits"}, {"configurable": {"thread_id": "waiting"}})
            else:
                {"pg": dump, "resume": resume}[command](saver)
        return
    conn = sqlite3.connect(where, check_same_thread=False)
    if command == "graphs":
        graphs(conn)
    elif command == "old":
        old(conn)
    elif command == "resume":
        from langgraph.checkpoint.sqlite import SqliteSaver

        resume(SqliteSaver(conn))
        return
    else:
        from langgraph.checkpoint.sqlite import SqliteSaver

        dump(SqliteSaver(conn))
        return
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.execute("PRAGMA journal_mode=DELETE")
    conn.execute("VACUUM")
    conn.close()


main()
