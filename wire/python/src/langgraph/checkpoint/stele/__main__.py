"""``python -m langgraph.checkpoint.stele …`` runs the client's `stele`.

So `stele verify` and `stele backup` need no other install.
"""

from __future__ import annotations

import os
import subprocess
import sys

from langgraph.checkpoint.stele._endpoint import find_binary
from langgraph.checkpoint.stele.errors import BinaryNotFoundError


def main() -> int:
    try:
        binary = find_binary()
    except BinaryNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    if sys.platform == "win32":
        return subprocess.call([binary, *sys.argv[1:]])
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
