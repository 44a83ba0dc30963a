# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables by which allocators are tuned; they travel with the choice of an allocator. Pure.

Sources: jemalloc(3), the gperftools and mimalloc documentation, mallopt(3) and the GNU C library's tunables, umem_debug(3MALLOC).
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional

TUNABLE = re.compile(r"MALLOC_\w+|TCMALLOC_\w+|MIMALLOC_\w+|GLIBC_TUNABLES|UMEM_\w+")
SAFE_VALUE = re.compile(r"[A-Za-z0-9_.,:=/+%@-]*")
"""What every launcher can hand over without a quote."""

CAPPED_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""What ``glibc`` means unless the user says something else about arenas."""


def tunables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the allocators' variables among those of a process or unit, whose others may be secrets."""
    return {name: value for name, value in sorted(environment.items()) if TUNABLE.fullmatch(name)}


def problem(name: str, value: str) -> Optional[str]:
    """Return why a variable cannot be handed to a server, None if it can."""
    if not TUNABLE.fullmatch(name):
        return (
            f"'{name}' is no variable of an allocator. "
            "Use MALLOC_CONF, MALLOC_ARENA_MAX, GLIBC_TUNABLES, TCMALLOC_..., MIMALLOC_... or UMEM_..."
        )
    if not SAFE_VALUE.fullmatch(value):
        found = " ".join(sorted({repr(char) for char in value if not SAFE_VALUE.fullmatch(char)}))
        return f"the value of {name} has {found}, which not every launcher can hand over. Leave it out"
    return None


def words(environment: Mapping[str, str]) -> str:
    """Return the variables in words, for messages."""
    return " ".join(f"{name}={value}" for name, value in sorted(environment.items()))
