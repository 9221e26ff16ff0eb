"""What the client says is for who writes Python: in its words, and with what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import langgraph.checkpoint.stele
import langgraph.store.stele
from langgraph.checkpoint.stele import errors

# Words of the server's language, and of the other client's.
FOREIGN = re.compile(
    r"%!|\bnil\b|goroutine|\bstruct\b|interface \{|map\[|RunOptions|context deadline|"
    r"\bundefined\b|\bnull\b|connectTimeout|\btrue\b|\bfalse\b|the option "
)

# Their texts say what to do, which differs from one to the next.
DIFFER = {
    "CancelledError",
    "ClosingError",
    "InvalidArgumentError",
    "NotFoundError",
    "DirectoryError",
    "ServerStartError",
    "SteleError",
    "SteleTimeoutError",
}


def classes() -> list[type[errors.SteleError]]:
    of = [getattr(errors, name) for name in errors.__all__] + [errors.ClosingError]
    assert len(of) > 25
    return of


def test_every_error_says_what_to_do() -> None:
    for of in classes():
        assert of.advice or of.__name__ in DIFFER, of
        text = str(of("something happened"))
        assert text.startswith("something happened")
        assert not FOREIGN.search(text), text


def raised() -> Iterator[tuple[Path, int, str]]:
    """The texts of the exceptions that the client makes."""
    roots = [*langgraph.checkpoint.stele.__path__, *langgraph.store.stele.__path__]
    for path in (p for root in roots for p in Path(root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith("Error") or name in ("late", "passed"):
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield path, part.lineno, part.value


def test_what_is_raised_is_in_our_words() -> None:
    texts = list(raised())
    assert len(texts) > 60
    for path, line, text in texts:
        assert not FOREIGN.search(text), f"{path}:{line}: {text}"


def test_an_answer_about_vectors_is_told_from_one_about_an_argument() -> None:
    def answered(reason: str) -> str:
        details = {"field": "index", "reason": reason}
        message = f"invalid index: {reason}"
        error = {"code": "invalid", "message": message, "details": details}
        return str(errors.from_answer(error))

    assert "leave out query" in answered("the store has no index")
    wrong = "want a list, got a whole number"
    assert answered(wrong) == f"invalid index: {wrong}"
