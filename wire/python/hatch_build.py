"""Puts the binary of a platform into its wheel.

build.py names both in the environment. Without them the wheel is for any platform,
has no binary, and starts the `stele` that is on PATH.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Binary(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        binary = os.environ.get("STELE_WHEEL_BINARY")
        if self.target_name != "wheel" or version == "editable" or not binary:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['STELE_WHEEL_PLATFORM']}"
        build_data["force_include"][binary] = (
            f"langgraph/checkpoint/stele/_bin/{os.path.basename(binary)}"
        )
