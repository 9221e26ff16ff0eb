"""Records repr(v) of plain data, for the test of package pyrepr: python record.py"""

import json
import os

VALUES = [
    None, True, False, 0, -1, 2**63 - 1, 1.0, -0.0, 1.5, 1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 1.5e300, 0.1, "", "a", "it's", 'say "x"', "it's \"x\"",
    "a\\b", "a\nb\tc\rd", "\x00\x1f\x7f\x80\xa0\xad", "é世😀", "\u2028\u200b\ufeff\ue000", "\U000e0001", [], [1, [None, "x"]], {}, {"a": {"b": [1.5, True]}}, {"it's": 1},
]
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "repr.json"), "w") as f:
    json.dump([{"value": v, "repr": repr(v)} for v in VALUES], f, separators=(",", ":"))
    f.write("\n")
