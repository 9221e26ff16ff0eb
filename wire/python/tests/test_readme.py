"""The README's program: an interrupt that a restarted process answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from servers import kill_server

README = Path(__file__).parent.parent / "README.md"


def test_the_interrupt_of_the_readme(directory: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    directory.mkdir()
    script = directory.parent / "ask.py"
    script.write_text(program.replace('"stele-data"', repr(str(directory))), "utf-8")
    first = run(script)
    assert "May I?" in first, first
    kill_server(directory)
    assert run(script, "yes") == "{'answer': 'yes'}\n"


def run(script: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, script, *args], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
