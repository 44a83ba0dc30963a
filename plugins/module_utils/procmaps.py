# SPDX-License-Identifier: GPL-3.0-or-later
"""Read /proc/PID/maps: which file is mapped where, and whether that file has been replaced (proc(5))."""

from __future__ import annotations

import bisect
import os
import re
from typing import List, NamedTuple, Optional

DELETED = " (deleted)"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mapping(NamedTuple):
    """One line of the maps. ``path`` is empty for memory without a file; ``[heap]`` stands as it is."""

    start: int
    end: int
    offset: int
    path: str
    deleted: bool


class Maps:
    """All mappings of a process."""

    def __init__(self, mappings: List[Mapping]) -> None:
        self.mappings = sorted(mappings)
        self._starts = [mapping.start for mapping in self.mappings]

    def at(self, address: int) -> Optional[Mapping]:
        """Return what is mapped at ``address``."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self.mappings[index].end:
            return self.mappings[index]
        return None

    def files(self) -> List[Mapping]:
        """Return the first mapping of each mapped file, in the order of the addresses."""
        first = {(mapping.path, mapping.deleted): mapping for mapping in reversed(self.mappings)}
        return sorted(mapping for mapping in first.values() if mapping.path.startswith("/"))

    def start_of(self, path: str) -> Optional[int]:
        """Return the address of the first byte of the file ``path``."""
        for mapping in self.mappings:
            if mapping.path == path:
                return mapping.start - mapping.offset
        return None


def parse(text: str) -> Maps:
    """Parse the text of a maps file; ``(deleted)`` is taken off the paths and kept as a flag."""
    return Maps([mapping for mapping in map(_parse_line, text.splitlines()) if mapping])


def _parse_line(line: str) -> Optional[Mapping]:
    fields = line.split(None, 5)
    if len(fields) < 5 or "-" not in fields[0]:
        return None
    start, end = (int(part, 16) for part in fields[0].split("-"))
    path = _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), fields[5]) if len(fields) > 5 else ""
    deleted = path.endswith(DELETED)
    return Mapping(start, end, int(fields[2], 16), path[: -len(DELETED)] if deleted else path, deleted)


def read(pid: int, proc: str = "/proc") -> Maps:
    """Read the maps of a process; ``OSError`` if it is gone or not ours to look at."""
    with open(os.path.join(proc, str(pid), "maps"), encoding="utf-8", errors="surrogateescape") as stream:
        return parse(stream.read())
