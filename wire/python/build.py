#!/usr/bin/env python3
"""Builds the wheels, each with the binary of its platform.

    python wire/python/build.py [--out DIR] [PLATFORM...]
    python wire/python/build.py host     # for this machine alone, and much sooner

It needs Go, pip, and PyPI for hatchling. Nothing is written into the tree. A platform
is GOOS/GOARCH, or "host"; by default all are built. The binaries are built without
cgo, so those of Linux need no C library and run on every distribution.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

PLATFORMS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
}

# Bytes of a wheel. One that jumps by a tenth may have met a dependency that looks
# methods up by name: the linker then keeps every exported method there is.
LIMIT = 14_500_000


@functools.cache  # what a build writes is no change
def commit() -> str:
    """The commit that is built, with a + if there are changes.

    It is empty without git, and in another's checkout.
    """

    def git(*args: str) -> str:
        command = ["git", "-C", str(ROOT), *args]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT.resolve():
            return ""
        changes = git("status", "--porcelain")
        return git("rev-parse", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def binary(platform: str, into: Path) -> Path:
    """Builds `stele` for a platform."""
    goos, goarch = platform.split("/")
    path = (
        into
        / platform.replace("/", "-")
        / ("stele.exe" if goos == "windows" else "stele")
    )
    flags = f"-ldflags=-s -w -X main.revision={commit()}"
    subprocess.run(
        ["go", "build", "-trimpath", flags, "-o", str(path), "."],
        cwd=ROOT / "cmd" / "stele",
        env={**os.environ, "GOOS": goos, "GOARCH": goarch, "CGO_ENABLED": "0"},
        check=True,
    )
    path.chmod(0o755)
    return path


def pip(*args: str, env: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *args]
    subprocess.run(command, env={**os.environ, **(env or {})}, check=True)


def host() -> str:
    out = subprocess.run(
        ["go", "env", "GOHOSTOS", "GOHOSTARCH"],
        check=True,
        capture_output=True,
        text=True,
    )
    return "/".join(out.stdout.split())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("dist"), help="where the wheels go (dist)"
    )
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM")
    args = parser.parse_args()
    platforms = [host() if p == "host" else p for p in args.platforms] or list(
        PLATFORMS
    )
    for platform in platforms:
        if platform not in PLATFORMS:
            parser.error(f"no platform {platform}; there are {', '.join(PLATFORMS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    too_large = []
    with tempfile.TemporaryDirectory() as work:
        # A build leaves its traces beside the source, so it gets a copy.
        source = Path(work) / "source"
        shutil.copytree(
            HERE, source, ignore=shutil.ignore_patterns("dist", "__pycache__", ".*")
        )
        built = commit()
        if built and not built.endswith("+"):  # else no commit is what was built
            project = source / "pyproject.toml"
            urls = "[project.urls]\n"
            url = f'Commit = "https://github.com/stele-go/stele/commit/{built}"\n'
            project.write_text(project.read_text().replace(urls, urls + url))
        for platform in platforms:
            wheels = Path(work) / "wheels" / platform.replace("/", "-")
            pip(
                "wheel", "--no-deps", "--wheel-dir", str(wheels), str(source),
                env={
                    "STELE_WHEEL_BINARY": str(binary(platform, Path(work))),
                    "STELE_WHEEL_PLATFORM": PLATFORMS[platform],
                },
            )  # fmt: skip
            for wheel in wheels.glob("*.whl"):
                size = wheel.stat().st_size
                print(f"{size / 1e6:5.1f} MB  {wheel.name}")
                if size > LIMIT:
                    too_large.append(wheel.name)
                shutil.copy2(wheel, args.out)
    if too_large:
        print(f"over {LIMIT / 1e6:g} MB: {', '.join(too_large)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
