"""A graph that is started in Python, continued in Go, and ended in Python.

Its names are those of wire/internal/handover. `stele verify` and `stele backup` look at
the store while it is served.
"""

from __future__ import annotations

import json
import operator
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import pytest
from conftest import stele
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
    if not (WIRE / "go.mod").exists() or shutil.which("go") is None:
        pytest.skip("needs Go and the tree of stele")
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
