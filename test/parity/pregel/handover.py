"""Plays scenarios in turns with a program in Go, on one PostgreSQL database:
python handover.py URL. Partner in handover.go says how. Jobs and messages are lines of
JSON on standard input and output."""

import json
import sys
import traceback
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from harness import CLOCK_NS, Fractions, Trace, canon, idmod, place
from trace import SCENARIOS

LOOKS = ("state", "history", "show")
TICKS_TO_1970 = 0x01B21DD213814000
out = sys.stdout
sys.stdout = sys.stderr


def tell(**said: Any) -> None:
    out.write(json.dumps(said, ensure_ascii=False) + "\n")
    out.flush()


class InTurns(Trace):
    """A trace whose calls are made in turns."""

    def __init__(self, durability: str, mine: bool, saver: Any):
        super().__init__(durability)
        self.mine, self.saver = mine, saver

    def call(self, kind: str, f: Any) -> Any:
        if kind in LOOKS:
            result = f()
            tell(kind=kind)
            self.heard(kind)
            return result
        mine, self.mine = self.mine, not self.mine
        if not mine:
            return self.hear(kind)
        before = len(self.lines)
        result = f()
        tell(
            kind=kind,
            lines=self.lines[before:],
            minted=Fractions.ids,
            deeds=[(n, canon(v)) for n, v in self.deeds],
            address=place(result) if isinstance(result, dict) else None,
        )
        return result

    @staticmethod
    def heard(kind: str) -> dict:
        said = json.loads(sys.stdin.readline())
        if said["kind"] != kind:
            raise RuntimeError(f"Go made a call {said['kind']}, this program a call {kind}")
        return said

    def hear(self, kind: str) -> Any:
        said = self.heard(kind)
        self.lines.extend(said["lines"] or ())
        if said["minted"] != Fractions.ids:
            Fractions.ids = said["minted"]
            idmod._last_v6_timestamp = CLOCK_NS // 100 + TICKS_TO_1970 + said["minted"] - 1
        self.deeds = [(n, v) for n, v in said["deeds"] or ()]
        address = said["address"]
        return address and {"configurable": {"checkpoint_ns": "", **address}}


def main() -> None:
    with psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=0, row_factory=dict_row) as connection:
        for line in sys.stdin:
            job = json.loads(line)
            t = InTurns(job["durability"], job["mine"], PostgresSaver(connection))
            try:
                SCENARIOS[job["scenario"]][0](t)
                t.dump()
            except Exception:  # noqa: BLE001
                tell(failed=traceback.format_exc())
                return  # the programs are no longer at one call
            tell(kind="end", lines=t.lines)


main()
