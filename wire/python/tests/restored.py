#!/usr/bin/env python3
"""stele, where each server of a directory begins with what its bucket has.

A stand-in for the binary, by STELE_BINARY; that is STELE_SERVED then. `serve DIR` first
restores the bucket DIR.bucket into a new directory, to which DIR leads, a link, and
serves that with the bucket in mode sync. So what only the disk of the server before had
is lost. Other commands are stele's own. The file STELE_RESTORED gets a line each time.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

LOCKED = 3  # as stele serve ends if another one serves the directory


def restore(stele: str, path: Path) -> str:
    """Have what the bucket has where path leads; the address of the bucket."""
    bucket = Path(f"{path}.bucket")
    bucket.mkdir(exist_ok=True)
    address = f"file://{bucket}"
    old = path.resolve()
    number = int(old.suffix[1:]) + 1 if path.is_symlink() else 0
    new = Path(f"{path}.{number}")
    shutil.rmtree(new, ignore_errors=True)  # of one that was killed
    if number == 0:
        new.mkdir(mode=0o750)
    else:
        done = subprocess.run(
            [stele, "restore", address, str(new)], capture_output=True
        )
        if b"the bucket has no complete point yet" in done.stderr:
            return address  # nothing was acknowledged; the server goes on seeding
        if done.returncode != 0:
            sys.exit(f"restore: {done.stderr.decode()}")
    link = Path(f"{path}.link")
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    os.replace(link, path)
    if number > 0:
        shutil.rmtree(old)
        with open(os.environ["STELE_RESTORED"], "a") as log:
            print(new, file=log)
    return address


def main() -> None:
    stele, args = os.environ["STELE_SERVED"], sys.argv[1:]
    if args[:1] == ["serve"]:
        # The server has the lock as long as it lives: nobody restores beside it.
        lock = os.open(f"{args[1]}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        os.set_inheritable(lock, True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(LOCKED)
        address = restore(stele, Path(args[1]))
        args += ["--replica", address, "--replica-mode", "sync"]
        args += ["--replica-ttl", "100ms"]  # the lease of who was killed
    os.execv(stele, [stele, *args])


if __name__ == "__main__":
    main()
