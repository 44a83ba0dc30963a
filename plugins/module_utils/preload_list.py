# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of LD_PRELOAD: a list that ld.so splits at spaces and colons, with no way to escape either."""

from __future__ import annotations

import os
import re
from typing import Callable, Iterable, List, Optional

SAFE_PATH = r"/[A-Za-z0-9._/+@,=~%-]+"
"""Paths that neither ld.so nor a shell nor systemd takes apart."""


def split_preload(value: str) -> List[str]:
    """Split a value of LD_PRELOAD as ld.so(8) does."""
    return [word for word in re.split(r"[ :\t\n]+", value) if word]


def unsafe_path(path: str) -> Optional[str]:
    """Return why ``path`` cannot be preloaded by its name, None if it can."""
    if re.fullmatch(SAFE_PATH, path):
        return None
    if not path.startswith("/"):
        return f"the library {path!r} is not an absolute path: name the file that is meant"
    found = sorted(set(re.findall(r"[^A-Za-z0-9._/+@,=~%-]", path)))
    return (
        f"the library path {path!r} contains {' '.join(map(repr, found))}: LD_PRELOAD has no escape for it. "
        "Give the library a plain path, for example by a copy that root owns"
    )


def merged(
    foreign: Iterable[str], ours: Iterable[str], resolve: Callable[[str], str] = os.path.realpath
) -> List[str]:
    """Return the foreign libraries in their order, then ours; each file once."""
    result: List[str] = []
    seen = set()
    for path in [*foreign, *ours]:
        if resolve(path) not in seen:
            seen.add(resolve(path))
            result.append(path)
    return result
