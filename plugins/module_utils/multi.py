# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of ``mysqld_multi``: which servers one launcher would start, also those that do not run now.

Source: "mysqld_multi - Manage Multiple MySQL Servers" in the MySQL manual, "mariadbd-multi" in MariaDB's.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Optional, Sequence

from .option_file import parse, read

STARTS_GROUPS = re.compile(r"\b(mysqld_multi|mariadbd-multi)\b")
_GROUP = re.compile(r"(mysqld|mariadbd)[0-9]+")


def starts_groups(*paths: Optional[str]) -> bool:
    """Tell whether one of these files (unit files, init scripts) calls ``mysqld_multi``."""
    lines = [line for path in paths if path for line in (read(path) or "").splitlines()]
    return any(STARTS_GROUPS.search(line) for line in lines if not line.lstrip().startswith("#"))


def groups(paths: Sequence[str]) -> Dict[str, str]:
    """Return the data directory of each numbered group of these option files, later lines win."""
    found: Dict[str, str] = {}
    for path in paths:
        for option in parse(read(path) or ""):
            if option.name == "datadir" and option.value and _GROUP.fullmatch(option.section):
                found[option.section] = os.path.normpath(option.value)
    return found


def missing(paths: Sequence[str], running: Sequence[str]) -> Dict[str, str]:
    """Return the groups whose data directories are none of the ``running`` servers'."""
    real = {os.path.realpath(path) for path in running}
    return {name: path for name, path in groups(paths).items() if os.path.realpath(path) not in real}
