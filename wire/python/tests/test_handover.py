"""A graph that goes from Python to Go, to JavaScript, and back.

Its names are those of wire/internal/handover and of wire/js/test/suite/handover.mjs.
`stele verify` and `stele backup` look at the store while it is served.
"""

from __future__ import annotations

import json
import operator
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest
from conftest import need, stele
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph.checkpoint.stele import SteleSaver

WIRE = Path(__file__).resolve().parents[3] / "wire"


class Review(TypedDict):
    answer: str


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    answer: str
    confirmed: str


def fan(state: State) -> Any:
    return Command(goto=[Send("work", {"n": i}) for i in range(3)])


def more(state: State) -> Any:
    return Command(goto=[Send("check", {"n": i}) for i in range(3)])


def work(part: Any) -> Any:
    return {"log": [f"python {part['n']}"]}


def ask(state: Review) -> Any:
    return {"answer": interrupt("May I?")}


def confirm(state: State) -> Any:
    return {"confirmed": interrupt("Is it right?")}


def graph(saver: SteleSaver) -> Any:
    review = StateGraph(Review).add_node("ask", ask).add_edge(START, "ask").compile()
    return (
        StateGraph(State)
        .add_node("fan", fan)
        .add_node("work", work)
        .add_node("review", review)
        .add_node("more", more)
        .add_node("check", work)
        .add_node("confirm", confirm)
        .add_edge(START, "fan")
        .add_edge("work", "review")
        .add_edge("review", "more")
        .add_edge("check", "confirm")
        .compile(checkpointer=saver)
    )


@pytest.fixture(scope="session")
def handover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in Go."""
    need(
        (WIRE / "internal" / "handover").exists() and shutil.which("go"),
        "Go and the tree of stele",
    )
    program = tmp_path_factory.mktemp("go") / "handover"
    subprocess.run(
        ["go", "build", "-o", program, "./internal/handover"], cwd=WIRE, check=True
    )
    return program


def test_python_go_python(handover: Path, directory: Path, tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with SteleSaver.from_dir(directory) as saver:
        g = graph(saver)
        first = g.invoke({"log": ["start"]}, config)
        assert first["log"] == ["start", "python 0", "python 1", "python 2"]
        assert [i.value for i in first["__interrupt__"]] == ["May I?"]

        done = subprocess.run(
            [handover, f"unix:{directory}/serve.sock", "t", "yes"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        second = json.loads(done.stdout)
        log = [*first["log"], "go 0", "go 1", "go 2"]
        assert second["state"] == {"log": log, "answer": "yes"}
        assert second["questions"] == ["Is it right?"]

        assert stele("verify", directory).returncode == 0
        assert stele("backup", directory, tmp_path / "backup").returncode == 0
        assert stele("verify", tmp_path / "backup").returncode == 0

        state = g.get_state(config)
        assert state.next == ("confirm",)
        assert state.values == {"log": log, "answer": "yes"}
        last = g.invoke(Command(resume="it is"), config)
        assert last == {"log": log, "answer": "yes", "confirmed": "it is"}
        assert g.get_state(config).next == ()
        steps = [s.metadata["step"] for s in g.get_state_history(config)]
        assert steps == list(range(len(steps) - 2, -2, -1))


@pytest.fixture(scope="session")
def javascript() -> Path:
    """The program in JavaScript, in a built client: `npm install && npm run build`."""
    root = Path(os.environ.get("STELE_CLIENT_JS") or WIRE.parent / "clients" / "js")
    built = shutil.which("node") and (root / "dist").exists()
    need(built, "Node and the built client for JavaScript")
    return root / "test" / "suite" / "handover.mjs"


def test_python_go_javascript_python(
    handover: Path, javascript: Path, directory: Path, tmp_path: Path
) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    url = f"unix:{directory}/serve.sock"

    def run(*command: object) -> list[Any]:
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def in_javascript(*calls: Any) -> list[Any]:
        return run("node", javascript, url, "t", json.dumps(calls))

    def state(log: list[str], answer: str, confirmed: str) -> Any:
        return {"log": log, "answer": answer, "confirmed": confirmed}

    with SteleSaver.from_dir(directory) as saver, ThreadPoolExecutor(2) as beside:
        g = graph(saver)
        first = g.invoke({"log": ["start"]}, config)
        (second,) = run(handover, url, "t", "yes")
        assert second["questions"] == ["Is it right?"]
        log = [*first["log"], "go 0", "go 1", "go 2"]

        # The question that Go asked is answered in JavaScript, which ends the run, and
        # has one of its own with Sends, a subgraph and both questions.
        looks = [
            beside.submit(stele, "verify", directory),
            beside.submit(stele, "backup", directory, tmp_path / "backup"),
        ]
        calls = in_javascript(
            {"resume": "it is"},
            {"input": {"log": ["again"]}},
            {"resume": "yes again"},
            {"resume": "still"},
        )
        assert [look.result().returncode for look in looks] == [0, 0]
        worked = ["javascript 0", "javascript 1", "javascript 2"]
        half, whole = [*log, "again", *worked], [*log, "again", *worked, *worked]
        assert calls == [
            {"state": state(log, "yes", "it is"), "questions": []},
            {"state": state(half, "yes", "it is"), "questions": ["May I?"]},
            {
                "state": state(whole, "yes again", "it is"),
                "questions": ["Is it right?"],
            },
            {"state": state(whole, "yes again", "still"), "questions": []},
        ]

        # Python goes on with what JavaScript left, and JavaScript ends Python's run.
        assert g.get_state(config).values == state(whole, "yes again", "still")
        third = g.invoke({"log": ["python"]}, config)
        worked = ["python 0", "python 1", "python 2"]
        assert third["log"] == [*whole, "python", *worked]
        g.invoke(Command(resume="sure"), config)
        (last,) = in_javascript({"resume": "right"})
        log = [*whole, "python", *worked, *worked]
        assert last == {"state": state(log, "sure", "right"), "questions": []}
        found = g.get_state(config)
        assert (found.values, found.next) == (state(log, "sure", "right"), ())
        steps = [s.metadata["step"] for s in g.get_state_history(config)]
        assert steps == list(range(len(steps) - 2, -2, -1))
    assert stele("verify", tmp_path / "backup").returncode == 0
    assert stele("verify", directory).returncode == 0
