# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocators that the toolkit builds from source: which project has which, and where they are put. No building here."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Optional

PREFIX = "/opt/fleet-mysqltune"
MARK = "fleet-mysqltune.json"
"""In the directory of each: what it was built from, and how."""

PROJECTS = {
    "gperftools": ("tcmalloc", "tcmalloc_minimal"),
    "jemalloc": ("jemalloc",),
    "mimalloc": ("mimalloc",),
}
"""The projects that can be built, with their allocators."""


def tree(prefix: str, allocator: str, version: str) -> str:
    """Return the directory of one allocator in one version."""
    return os.path.join(prefix, f"{allocator}-{version}")


def library(prefix: str, allocator: str, version: str, number: Optional[int]) -> str:
    """Return the library's path by its soname; without the soname's number, by the link to it."""
    name = f"lib{allocator}.so" + (f".{number}" if number is not None else "")
    return os.path.join(tree(prefix, allocator, version), "lib", name)


def read_mark(directory: str) -> Dict[str, Any]:
    """Return what stands in the mark of a directory; empty if it has none."""
    try:
        with open(os.path.join(directory, MARK), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def source_of(path: str) -> Optional[str]:
    """Return the hash of the archive that a library was built from; None if it was not built here."""
    found = read_mark(os.path.dirname(os.path.dirname(path))).get("source_sha256")
    return str(found) if found else None
