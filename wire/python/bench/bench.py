#!/usr/bin/env python3
"""What a saver costs real LangGraph, with stele, SQLite, PostgreSQL and memory in turn.

    python bench.py [--rounds 5] [--durability async] [--only chat,loop,processes,wire]

It needs langgraph, langgraph-checkpoint-sqlite and langgraph-checkpoint-stele. Every
cell is a process of its own. SQLite has WAL and synchronous=FULL, so that a commit is
on disk when it returns, as with stele. Printed are medians of the rounds.

PostgreSQL takes part where Debian's package postgresql is installed, and in Python
langgraph-checkpoint-postgres and psycopg-pool: a server of the bench's own, on a unix
socket, with the settings it comes with. Its disk is that of the tables, without the
write-ahead log.

  chat       MessagesState, 100 turns of a question and an answer of 1,200 characters
  loop       1,000 supersteps that count
  processes  4 processes with 8 threads, each a thread of 20 turns of the chat
  wire       the time of one call, and what of it is not the server's own; the first
             from_dir
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# "undeferred" is stele with defer_writes=False: the writes of each task are synced.
# "client" is stele's client alone: it makes the same requests, and drops them.
# "sqlite off" and "stele off" sync nothing: synchronous=OFF, and --sync=never.
# "postgres" joins them where it is there.
SAVERS = [
    "memory", "sqlite", "stele", "undeferred", "client", "sqlite off", "stele off",
]  # fmt: skip


# One cell: a process of its own.


def words(rng: random.Random, length: int = 1200) -> str:
    """Text that compresses about as prose does."""
    known = [
        "".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(2, 9)))
        for _ in range(500)
    ]
    text = " ".join(rng.choices(known, k=length // 4))
    return text[:length]


def chat_graph() -> Any:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    rng = random.Random(7)
    answers = [words(rng) for _ in range(100)]

    def model(state: MessagesState) -> Any:
        return {"messages": [AIMessage(answers[len(state["messages"]) // 2 % 100])]}

    return StateGraph(MessagesState).add_node(model).add_edge(START, "model")


def loop_graph() -> Any:
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command
    from typing_extensions import TypedDict

    class Counted(TypedDict):
        n: int

    def count(state: Counted) -> Any:
        after = state["n"] + 1
        if after == 1000:
            return {"n": after}
        return Command(update={"n": after}, goto="count")

    return StateGraph(Counted).add_node(count).add_edge(START, "count")


class Nowhere:
    """In the place of a connection: requests are made and dropped.

    What of a thread was put last is kept, since the next run begins with it.
    """

    def __init__(self) -> None:
        self.tuples: dict[tuple[str, str], dict[str, Any]] = {}
        self.number = 0

    def _request(self, method: str, params: dict[str, Any]) -> None:
        from langgraph.checkpoint.stele import _wire

        self.number += 1
        _wire.request(self.number, method, params, _wire.MAX_FRAME)

    def write(self, method: str, params: dict[str, Any]) -> None:
        self._request(method, {**params, "call": (bytes(16), 0, self.number)})
        if method != "put":
            return
        place = params["thread"], params["ns"]
        before = self.tuples.get(place, {"values": {}})
        checkpoint = params["checkpoint"]
        self.tuples[place] = {
            **params,
            **checkpoint,
            "values": {**before["values"], **checkpoint["values"]},
            "writes": [],
        }

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._request(method, params)
        return {"tuple": self.tuples.get((params["thread"], params["ns"]))}


def open_saver(kind: str, directory: str) -> tuple[Any, Any]:
    if kind == "memory":
        from langgraph.checkpoint.memory import InMemorySaver

        return InMemorySaver(), lambda: None
    if kind.startswith("sqlite"):
        from langgraph.checkpoint.sqlite import SqliteSaver

        path = os.path.join(directory, "checkpoints.sqlite")
        connection = sqlite3.connect(path, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        level = "OFF" if kind == "sqlite off" else "FULL"
        connection.execute(f"PRAGMA synchronous={level}")
        sqlite = SqliteSaver(connection)
        sqlite.setup()
        return sqlite, connection.close
    if kind == "postgres":
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        pool: Any = ConnectionPool(
            (Path(directory) / "postgres").read_text(),
            max_size=8,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 0,
                "row_factory": dict_row,
            },
        )
        pool.wait()
        return PostgresSaver(pool), pool.close
    from langgraph.checkpoint.stele import SteleSaver

    if kind == "client":
        return SteleSaver(Nowhere()), lambda: None  # type: ignore[arg-type]
    saver = SteleSaver.from_dir(
        os.path.join(directory, "stele"),
        defer_writes=kind != "undeferred",
        serve_args=["--sync=never"] if kind == "stele off" else [],
    )
    saver.setup()
    return saver, saver.close


def chat(app: Any, thread: str, turns: int, durability: str) -> None:
    from langchain_core.messages import HumanMessage

    rng = random.Random(8)
    for _ in range(turns):
        app.invoke(
            {"messages": [HumanMessage(words(rng))]},
            {"configurable": {"thread_id": thread}},
            durability=durability,
        )


def run_chat(app: Any, durability: str) -> None:
    chat(app, "t", 100, durability)


def run_loop(app: Any, durability: str) -> None:
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 2000}
    app.invoke({"n": 0}, config, durability=durability)


def run_threads(app: Any, durability: str, name: str) -> None:
    failed: list[BaseException] = []

    def one(i: int) -> None:
        try:
            chat(app, f"{name}-{i}", 20, durability)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def cell(kind: str, saver_kind: str, directory: str, durability: str) -> None:
    """Measures, and prints what it found as JSON."""
    graph = loop_graph() if kind == "loop" else chat_graph()
    # A first small run loads what Python loads late.
    chat_app = chat_graph().compile(checkpointer=open_saver("memory", directory)[0])
    chat(chat_app, "warm", 2, durability)
    saver, close = open_saver(saver_kind, directory)
    app = graph.compile(checkpointer=saver)
    print("ready", flush=True)
    name = sys.stdin.readline().strip()
    begin, used = time.perf_counter(), cpu()
    error = ""
    try:
        if kind == "chat":
            run_chat(app, durability)
        elif kind == "loop":
            run_loop(app, durability)
        else:
            run_threads(app, durability, name)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    seconds, used = time.perf_counter() - begin, cpu() - used
    close()
    print(json.dumps({"seconds": seconds, "cpu": used, "error": error}), flush=True)


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# What runs the cells.

STEPS = {"chat": 300, "loop": 1001, "processes": 4 * 8 * 20 * 3}


def server_of(directory: Path) -> int | None:
    try:
        return int(json.loads((directory / "stele/serve.json").read_bytes())["pid"])
    except (OSError, ValueError):
        return None


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_server(directory: Path) -> None:
    pid = server_of(directory)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    while (directory / "stele/serve.json").exists():
        time.sleep(0.005)


class Postgres:
    """A server of PostgreSQL's, with a database for each cell."""

    def __init__(self, initdb: Path) -> None:
        self.programs = initdb.parent
        self.root = Path(tempfile.mkdtemp(prefix="bench-pg"))
        self.root.chmod(0o755)
        # The programs refuse to run as root.
        self.user = "nobody" if os.getuid() == 0 else None
        if self.user is not None:
            shutil.chown(self.root, self.user)
        self.made = 0
        self.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={self.root}"
        self.run("pg_ctl", "-w", "-l", str(self.root / "log"), "-o", options, "start")
        self.pid = int((self.root / "data/postmaster.pid").read_text().split()[0])

    def run(self, name: str, *args: str) -> None:
        with (self.root / "out").open("ab") as out:
            subprocess.run(
                [self.programs / name, "-D", self.root / "data", *args],
                cwd=self.root, user=self.user, check=True, stdout=out, stderr=out,
            )  # fmt: skip

    def url(self, database: str) -> str:
        return f"host={self.root} user=postgres dbname={database}"

    def prepare(self, directory: Path) -> None:
        """Makes a database with the saver's tables, and says in the directory where."""
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver

        self.made += 1
        self.database = f"cell{self.made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.database}")  # type: ignore[arg-type]
        with PostgresSaver.from_conn_string(self.url(self.database)) as saver:
            saver.setup()
        (directory / "postgres").write_text(self.url(self.database))
        self.empty = self.size()

    def size(self) -> int:
        import psycopg

        with psycopg.connect(self.url(self.database)) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())")
            return int(row.fetchone()[0])  # type: ignore[index]

    def cpu(self) -> float:
        """Seconds of processors that its processes have taken, those that ended too."""
        used = 0.0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            if int(status.parent.name) == self.pid:
                used += sum(map(int, fields[11:15]))  # with children that ended
            elif int(fields[1]) == self.pid:
                used += int(fields[11]) + int(fields[12])
        return used / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(self.root, ignore_errors=True)


postgres: Postgres | None = None


def start_postgres() -> None:
    global postgres
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    wanted = ("psycopg_pool", "langgraph.checkpoint.postgres")
    if programs and all(importlib.util.find_spec(name) for name in wanted):
        postgres = Postgres(programs[-1])
        SAVERS.append("postgres")


def measure(kind: str, saver: str, durability: str) -> dict[str, Any]:
    directory = Path(tempfile.mkdtemp(prefix="bench"))
    server = postgres if saver == "postgres" else None
    try:
        if server:
            server.prepare(directory)
        command = [sys.executable, __file__, "cell", kind, saver, directory, durability]
        n = 4 if kind == "processes" else 1
        processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(n)
        ]
        for process in processes:
            assert process.stdout and process.stdout.readline() == "ready\n"
        pid = server_of(directory)

        def of_server() -> float:
            return server.cpu() if server else cpu_of(pid) if pid else 0.0

        used = of_server()
        begin = time.perf_counter()
        for i, process in enumerate(processes):
            assert process.stdin
            process.stdin.write(f"p{i}\n")
            process.stdin.flush()
        found = [json.loads(process.communicate()[0]) for process in processes]
        seconds = time.perf_counter() - begin if n > 1 else found[0]["seconds"]
        used = of_server() - used
        end_server(directory)
        size = sum(
            p.stat().st_blocks * 512 for p in directory.rglob("*") if p.is_file()
        )
        if server:
            size = server.size() - server.empty
        return {
            "seconds": seconds,
            "cpu": used + sum(f["cpu"] for f in found),
            "server": used,
            "bytes": size,
            "errors": [f["error"] for f in found if f["error"]],
        }
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def tell(kind: str, runs: dict[str, list[dict[str, Any]]]) -> None:
    def median(saver: str, field: str) -> float:
        return statistics.median(run[field] for run in runs[saver])

    steps = STEPS[kind]
    n = len(runs["stele"])
    print(f"\n{kind}: {steps} checkpoints, median of {n} rounds")
    print(
        "saver      checkpoints/s  added µs each  CPU s  of the server  KB each  errors"
    )
    floor = median("memory", "seconds")
    for saver in SAVERS:
        seconds = median(saver, "seconds")
        errors = sum(len(run["errors"]) for run in runs[saver])
        added = (seconds - floor) / steps * 1e6
        print(
            f"{saver:10} {steps / seconds:13.0f} {added:14.0f}"
            f" {median(saver, 'cpu'):6.2f} {median(saver, 'server'):14.2f}"
            f" {median(saver, 'bytes') / steps / 1024:8.1f} {errors:7}"
        )
    sqlite, stele = median("sqlite", "seconds"), median("stele", "seconds")
    print(
        f"stele beside SQLite: {sqlite / stele:.2f} times the checkpoints/s, "
        f"{(stele - floor) / max(sqlite - floor, 1e-9):.2f} of what is added, "
        f"{median('stele', 'cpu') / median('sqlite', 'cpu'):.2f} of the CPU, "
        f"{median('sqlite', 'bytes') / max(median('stele', 'bytes'), 1):.1f} times "
        f"less disk; the interpreter alone is {floor / stele:.0%} of the time"
    )
    client = median("client", "seconds")
    print(
        f"its client alone, without a server, adds "
        f"{(client - floor) / max(sqlite - floor, 1e-9):.2f} of what SQLite adds, and "
        f"would make {sqlite / client:.2f} times the checkpoints/s"
    )
    for saver in SAVERS:
        for error in {e for run in runs[saver] for e in run["errors"]}:
            print(f"{saver}: {error}")


def took_itself(directory: Path) -> dict[str, float]:
    """The seconds that each method takes within the server, from its access log."""
    log = Path(f"/proc/{server_of(directory)}/fd/2").read_text("utf-8")
    took: dict[str, list[float]] = {}
    for method, n, unit in re.findall(
        r"method=(\w+) .*took=([\d.]+)([mµn]?s)$", log, re.M
    ):
        took.setdefault(method, []).append(float(n) * UNITS[unit])
    return {method: statistics.median(found) for method, found in took.items()}


UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def wire_round(add: Any, *serve_args: str) -> dict[str, float]:
    """Tells add what calls take, and returns what they take within the server if its
    arguments have it log that."""
    from langgraph.checkpoint.base import empty_checkpoint

    from langgraph.checkpoint.stele import SteleSaver

    def each(method: str, what: str, call: Any, n: int = 2000) -> None:
        took = []
        for _ in range(n):
            begin = time.perf_counter()
            call()
            took.append(time.perf_counter() - begin)
        add(method, what, statistics.median(took))

    async def aeach(method: str, what: str, call: Any, n: int = 2000) -> None:
        took = []
        for _ in range(n):
            begin = time.perf_counter()
            await call()
            took.append(time.perf_counter() - begin)
        add(method, what, statistics.median(took))

    directory = Path(tempfile.mkdtemp(prefix="bench"))
    begin = time.perf_counter()
    saver = SteleSaver.from_dir(directory / "stele", serve_args=serve_args)
    saver.setup()
    add("", "first from_dir", time.perf_counter() - begin)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": os.urandom(4096)}
    checkpoint["channel_versions"] = {"a": "1"}
    first: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config = saver.put(first, checkpoint, {"step": 0}, {"a": "1"})
    other: Any = {"configurable": {"thread_id": "w", "checkpoint_ns": ""}}
    other = saver.put(other, checkpoint, {"step": 0}, {"a": "1"})
    get = {"thread": "t", "ns": "", "id": config["configurable"]["checkpoint_id"]}
    put = saver._put_writes(other, [("a", os.urandom(4096))], "t", "")
    put["defer_sync"] = True
    client = saver._client

    async def asyncio_calls() -> None:
        await aeach("ping", "ping, asyncio", lambda: client.acall("ping", {}))
        await aeach("get", "get, asyncio", lambda: client.acall("get", {**get}))
        await aeach(
            "put_writes",
            "put_writes, nothing synced, asyncio",
            lambda: client.awrite("put_writes", {**put}),
        )
        await aeach("", "aget_tuple", lambda: saver.aget_tuple(config))

    each("ping", "ping", lambda: client.call("ping", {}))
    each("get", "get", lambda: client.call("get", {**get}))
    each(
        "put_writes",
        "put_writes, nothing synced",
        lambda: client.write("put_writes", {**put}),
    )
    each("", "get_tuple", lambda: saver.get_tuple(config))
    asyncio.run(asyncio_calls())
    saver.close()
    itself = took_itself(directory) if serve_args else {}
    end_server(directory)
    shutil.rmtree(directory, ignore_errors=True)
    return itself


def wire(rounds: int) -> None:
    calls: dict[tuple[str, str], list[float]] = {}
    within: dict[str, list[float]] = {}
    for _ in range(rounds):
        wire_round(
            lambda method, what, seconds: calls.setdefault((method, what), []).append(
                seconds
            )
        )
        # What the server itself takes for the same calls is what they take in process.
        # Another server says it, since one that writes a line for each is not timed.
        itself = wire_round(lambda *_: None, "--log=access")
        for method, seconds in itself.items():
            within.setdefault(method, []).append(seconds)
    print(f"\nwire: medians of {rounds} rounds, µs; values have 4 KB")
    print("                                         a call  in process  the wire's own")
    for (method, what), found in calls.items():
        microseconds = statistics.median(found) * 1e6
        line = f"{what:38} {microseconds:9.0f}"
        if method:
            inside = statistics.median(within[method]) * 1e6
            line += f" {inside:11.0f} {microseconds - inside:15.0f}"
        print(line)


def main() -> None:
    if sys.argv[1:2] == ["cell"]:
        cell(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--durability", choices=("async", "sync", "exit"), default="async"
    )
    parser.add_argument("--only", default="wire,chat,loop,processes")
    args = parser.parse_args()
    kinds = args.only.split(",")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    if "wire" in kinds:
        wire(args.rounds)
    start_postgres()
    try:
        for kind in (k for k in kinds if k in STEPS):
            runs: dict[str, list[dict[str, Any]]] = {saver: [] for saver in SAVERS}
            for _ in range(args.rounds):
                for saver in SAVERS:
                    runs[saver].append(measure(kind, saver, args.durability))
            tell(kind, runs)
    finally:
        if postgres:
            postgres.stop()


if __name__ == "__main__":
    main()
