# SPDX-License-Identifier: GPL-3.0-or-later
"""Which libraries of a host the malloc benchmark measures: the one that the plan would choose, for each allocator. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .allocators import LIBRARIES
from .choice import choose
from .refusals import Refusal

Arm = Dict[str, Optional[str]]
VARIABLE = "malloc_benchmark_allocators"


def arms(observed: Mapping[str, Any], wanted: Sequence[str] = ()) -> List[Arm]:
    """Return ``{allocator, library, reason, message}`` for each allocator; ``reason`` is why there is no usable library.

    ``observed`` is what mysqld_info saw. ``wanted`` has names and absolute paths; without it, what is there is returned.
    """
    found = [
        _arm(name, observed) for name in dict.fromkeys(wanted or LIBRARIES) if name not in ("", "system")
    ]
    return found if wanted else [arm for arm in found if not arm["reason"]]


def _arm(name: str, observed: Mapping[str, Any]) -> Arm:
    try:
        choice = choose(_program(observed), observed, {"name": name})
    except Refusal as refusal:
        return _unusable(name, refusal.reason, refusal.message.replace("allocator_name", VARIABLE))
    if choice.package:
        return _unusable(
            name, "not_found", f"no {name} library is on this host. Install the package {choice.package}."
        )
    return {"allocator": name, "library": choice.library, "reason": None, "message": ""}


def _unusable(name: str, reason: str, message: str) -> Arm:
    return {
        "allocator": name,
        "library": name if name.startswith("/") else None,
        "reason": reason,
        "message": message,
    }


def _program(observed: Mapping[str, Any]) -> Dict[str, Any]:
    """Return an instance to choose for: the first of the host as if nothing were linked into it, or one made up."""
    instance = next(iter(observed["instances"]), None)
    if instance:
        return {**instance, "allocator": {**instance["allocator"], "linked": None}}
    machine = observed["host"]["machine"]
    bits = 64 if "64" in machine or machine == "s390x" else 32
    nothing: Dict[str, Any] = {"linked": None, "configured": [], "resolved": {}}
    return {"exe": "a program of this host", "bits": bits, "machine": machine, "allocator": nothing}
