"""Runs the programs on real LangGraph and writes their fixtures.

    python record.py [--out DIRECTORY] [NAME ...]

Run twice, it writes the same bytes twice. See README.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import pathlib
import sys

from recorder import determinism

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=pathlib.Path, default=HERE / "fixtures")
    arguments.add_argument("names", nargs="*", metavar="NAME")
    options = arguments.parse_args()

    determinism.ensure_hash_seed()
    determinism.install()
    # Programs that fail on purpose and types outside the allowlist are logged
    # by LangGraph; neither is news here.
    logging.disable(logging.WARNING)

    from recorder.programs import PROGRAMS, record

    unknown = set(options.names) - set(PROGRAMS)
    if unknown:
        arguments.error(f"no such fixture: {', '.join(sorted(unknown))}")
    releases = {
        "langgraph": importlib.metadata.version("langgraph"),
        "langgraph_checkpoint": importlib.metadata.version("langgraph-checkpoint"),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in options.names or sorted(PROGRAMS):
        fixture = record(name, releases)
        path = fixture.write(options.out)
        other = path.with_suffix("") if path.suffix == ".gz" else pathlib.Path(f"{path}.gz")
        other.unlink(missing_ok=True)
        total += fixture.answers
        print(f"{name:18} {fixture.answers:6} answers {path.stat().st_size:9} bytes")
    print(f"{'total':18} {total:6} answers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
