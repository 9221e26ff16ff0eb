"""Writes the golden traces: python trace.py [directory]"""

import os
import sys

from harness import Trace
import scenarios_deep  # noqa: F401
import scenarios_flow  # noqa: F401
import scenarios_more  # noqa: F401
import scenarios_old  # noqa: F401
import scenarios_rest  # noqa: F401
import scenarios_resume  # noqa: F401
import scenarios_rules  # noqa: F401
import scenarios_shown  # noqa: F401
import scenarios_state  # noqa: F401
import scenarios_stream  # noqa: F401
from scenarios import SCENARIOS

DURABILITIES = ("sync", "exit")


def main() -> None:
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "golden")
    os.makedirs(out, exist_ok=True)
    lines = 0
    for name, (run, durabilities) in SCENARIOS.items():
        for durability in durabilities or DURABILITIES:
            t = Trace(durability)
            run(t)
            t.dump()
            with open(os.path.join(out, f"{name}.{durability}.jsonl"), "w", encoding="utf-8") as f:
                f.writelines(line + "\n" for line in t.lines)
            lines += len(t.lines)
    print(f"{len(SCENARIOS)} scenarios, {lines} lines")


if __name__ == "__main__":
    main()
