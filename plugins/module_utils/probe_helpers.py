# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that a unit runs beside its daemon: they get the unit's preload too."""

from __future__ import annotations

import os
import re
from typing import Callable, List, Tuple

from .command import Completed
from .systemd_env import UnitEnvironment

RunCommand = Callable[..., Completed]

_SHELLS = re.compile(r"(ba|da|k|mk|z|a)?sh$")


def helpers(unit: UnitEnvironment, exe: str, run: RunCommand) -> List[str]:
    """Return the programs that the unit runs beside the daemon, and /bin/sh."""
    kinds = "ExecCondition,ExecStartPre,ExecStart,ExecStartPost,ExecStop,ExecStopPost"
    shown = run(["systemctl", "show", "-p", kinds, "--", unit.unit], timeout=30.0).out
    paths = re.findall(r"^Exec\w+=\{ path=(\S+) ;", shown, re.MULTILINE)
    real = os.path.realpath(exe)
    return [path for path in dict.fromkeys([*paths, "/bin/sh"]) if os.path.realpath(path) != real]


def harmless(path: str) -> Tuple[str, List[str]]:
    """Return the interpreter of a helper and a command that starts it and does nothing (empty: unknown)."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(200).decode(errors="replace")
    except OSError:
        return path, []
    words = line[2:].split() if line.startswith("#!") else [path]
    interpreter = words[1] if words[0].endswith("/env") and len(words) > 1 else words[0]
    name = os.path.basename(interpreter)
    if _SHELLS.fullmatch(name):
        return interpreter, [interpreter, "-c", ":"]
    if name.startswith("python"):
        return interpreter, [interpreter, "-c", "pass"]
    return (interpreter, [interpreter, "-e", "1"]) if name == "perl" else (interpreter, [])
