# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that make up a systemd unit, as they are or as they are planned to be."""

from __future__ import annotations

import fnmatch
import glob
import os
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

UNIT_DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
"""Where drop-ins are looked for, the strongest first (systemd.unit(5))."""


class Files:
    """The files below ``root``, with planned contents in their place (None: planned to be absent)."""

    def __init__(self, root: str = "/", planned: Optional[Mapping[str, Optional[str]]] = None) -> None:
        self.root = root.rstrip("/")
        self.planned = dict(planned or {})

    def read(self, path: str) -> Optional[str]:
        """Return the text, None if there is no file that can be read."""
        if path in self.planned:
            return self.planned[path]
        try:
            with open(self.root + path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                return stream.read()
        except OSError:
            return None

    def matching(self, pattern: str) -> List[str]:
        """Return the paths that a pattern names, sorted, planned ones too."""
        found = {path[len(self.root) :] for path in glob.glob(glob.escape(self.root) + pattern)}
        found |= {path for path in self.planned if _matches(path, pattern)}
        return sorted(path for path in found if self.planned.get(path, "") is not None)

    def listed(self, directory: str) -> List[str]:
        return self.matching(f"{glob.escape(directory)}/*.conf")


def _matches(path: str, pattern: str) -> bool:
    """Match as a shell does: no wildcard stands for a slash."""
    pieces, patterns = path.split("/"), pattern.split("/")
    return len(pieces) == len(patterns) and all(map(fnmatch.fnmatchcase, pieces, patterns))


def drop_ins(names: Iterable[str], files: Files) -> List[str]:
    """Return the drop-ins by name; of two with one name the stronger directory's counts."""
    found: Dict[str, Tuple[int, str]] = {}
    for name in names:
        for rank, directory in enumerate(_drop_in_directories(name)):
            for path in files.listed(directory):
                found[os.path.basename(path)] = min(
                    found.get(os.path.basename(path), (rank, path)), (rank, path)
                )
    return [found[name][1] for name in sorted(found)]


def _drop_in_directories(name: str) -> List[str]:
    """``a-b@c.service``: its own directory, the template's, each prefix's, then the one of all services."""
    stem, suffix = name.rsplit(".", 1)
    prefix, at, _ = stem.partition("@")
    parts = [name] + ([f"{prefix}@.{suffix}"] if at else [])
    pieces = prefix.split("-")
    parts += [f"{'-'.join(pieces[:count])}-.{suffix}" for count in range(len(pieces) - 1, 0, -1)] + [suffix]
    return [f"{directory}/{part}.d" for part in parts for directory in UNIT_DIRECTORIES]
