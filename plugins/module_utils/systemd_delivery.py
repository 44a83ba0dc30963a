# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what our two files of a systemd unit should say, and whether its process has it already."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence, Set

from .allocators import classify
from .command import run as run_command
from .evidence import environment as process_environment
from .journal import Journal
from .preload_list import merged, split_preload, unsafe_path
from .redaction import redacted
from .systemd_env import (
    DROP_IN,
    RunCommand,
    UnitEnvironment,
    UnitError,
    drop_in_path,
    drop_in_text,
    environment_path,
    environment_text,
    overridden_by,
    read_unit,
)


@dataclass
class Delivery:
    """What is and what should be. ``before`` and ``after``: text of each of our files, None for absent."""

    unit: str
    preload: List[str]
    before: Dict[str, Optional[str]]
    after: Dict[str, Optional[str]]
    reload: bool = False
    restart_required: bool = False
    overridden_by: List[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.before != self.after or self.reload

    @property
    def diff(self) -> List[Dict[str, str]]:
        return [
            {
                "before_header": path if self.before[path] is not None else "/dev/null",
                "after_header": path if self.after[path] is not None else "/dev/null",
                "before": redacted(self.before[path] or ""),
                "after": redacted(self.after[path] or ""),
            }
            for path in self.after
            if self.before[path] != self.after[path]
        ]


def delivery(
    unit: str,
    library: Sequence[str],
    environment: Mapping[str, str],
    present: bool,
    run: RunCommand = run_command,
    root: str = "/",
    proc: str = "/proc",
) -> Delivery:
    """Compare what is with what should be; ``UnitError`` if it cannot or must not be done."""
    check_environment(environment)
    foreign = read_unit(unit, run, root, without_ours=True)
    wanted = merged(foreign.preload, library) if present else foreign.preload
    if present:
        check_libraries(foreign, library, root)
    after: Dict[str, Optional[str]] = {
        environment_path(foreign.unit): environment_text(foreign.unit, wanted, environment)
        if present
        else None,
        drop_in_path(foreign.unit): drop_in_text(foreign.unit) if present else None,
    }
    result = Delivery(foreign.unit, wanted, {path: _read(root.rstrip("/") + path) for path in after}, after)
    planned = read_unit(unit, run, root, planned=after)
    result.overridden_by = _overridden(planned, wanted, environment) if present else []
    result.preload = planned.preload
    result.reload = planned.loaded != present
    result.restart_required = _restart_required(planned, result.before, environment, proc)
    return result


def check_environment(environment: Mapping[str, str]) -> None:
    """``UnitError`` for variables that the manager would not take or that belong elsewhere."""
    for name, value in environment.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UnitError("invalid_environment", f"environment: {name!r} is not the name of a variable")
        if name in ("LD_PRELOAD", "LD_AUDIT"):
            raise UnitError(
                "invalid_environment", f"environment: {name} is not set here; use the option library"
            )
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise UnitError("invalid_environment", f"environment: the value of {name} has control characters")


def check_libraries(foreign: UnitEnvironment, library: Sequence[str], root: str = "/") -> None:
    """``UnitError`` for a path that LD_PRELOAD cannot hold and for a second allocator."""
    for path in library:
        problem = unsafe_path(path)
        if problem:
            raise UnitError("unsafe_path", problem)
    allocators = {path: _allocator(path, root) for path in merged(foreign.preload, library)}
    named = [path for path, allocator in allocators.items() if allocator]
    if len(named) < 2 or not any(path in library for path in named):
        return
    others = [path for path in named if path in foreign.preload]
    if others:
        raise UnitError(
            "second_allocator",
            f"{foreign.setter_of('LD_PRELOAD')} already preloads {', '.join(others)} "
            f"({allocators[others[0]]}) into {foreign.unit}. A process has room for one allocator: take that entry "
            "out first, or choose that allocator",
        )
    raise UnitError(
        "second_allocator", f"library names two allocators: {', '.join(named)}. Choose one of them"
    )


def _allocator(path: str, root: str) -> Optional[str]:
    """Return the allocator that a path stands for, by its own name or by that of the file it leads to."""
    real = os.path.realpath(root.rstrip("/") + path)
    return classify(os.path.basename(path)) or classify(os.path.basename(real))


def _overridden(planned: UnitEnvironment, wanted: Sequence[str], environment: Mapping[str, str]) -> List[str]:
    """Return the files that would keep our entry from the process."""
    if not planned.managed:
        return [path for path in planned.drop_ins if os.path.basename(path) == DROP_IN] or [planned.fragment]
    found = set(overridden_by(planned))
    variables = planned.variables
    lost = [name for name, value in environment.items() if variables.get(name) != value]
    if not set(wanted) <= set(planned.preload):
        lost.append("LD_PRELOAD")
    found |= {path for path in map(planned.setter_of, lost) if path}
    return sorted(found or ({planned.fragment} if lost else ()))


def _restart_required(
    planned: UnitEnvironment, before: Mapping[str, Optional[str]], environment: Mapping[str, str], proc: str
) -> bool:
    """Compare the running main process with the next start: the preload, and the variables that are ours."""
    if not planned.main_pid:
        return False
    try:
        running = process_environment(planned.main_pid, proc)
    except OSError:
        return False
    ours = set(environment) | _names(before.get(environment_path(planned.unit)))
    variables = planned.variables
    return split_preload(running.get("LD_PRELOAD", "")) != planned.preload or any(
        running.get(name) != variables.get(name) for name in ours
    )


def _names(text: Optional[str]) -> Set[str]:
    lines = (text or "").splitlines()
    return {line.split("=", 1)[0] for line in lines if not line.startswith("#")} - {"LD_PRELOAD"}


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def apply(wanted: Delivery, journal: Journal, run: RunCommand = run_command, root: str = "/") -> None:
    """Write or remove our files through the journal, then let the manager read them."""
    base = root.rstrip("/")
    journal.on_restore(["systemctl", "daemon-reload"])
    order = list(wanted.after.items())
    for path, text in order if order[0][1] is not None else reversed(order):
        if text is None:
            journal.remove(base + path)
        else:
            journal.write(base + path, text.encode("utf-8", "surrogateescape"), mode=0o644)
    reload_manager(run)
    if order[0][1] is None:
        _remove_empty_directories(wanted, base)


def _remove_empty_directories(wanted: Delivery, base: str) -> None:
    for path in wanted.after:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(base + path))


def reload_manager(run: RunCommand = run_command) -> None:
    """Let the manager read the unit files again; ``UnitError`` if it cannot."""
    done = run(["systemctl", "daemon-reload"], timeout=90.0)
    if done.rc:
        raise UnitError("reload", f"systemctl daemon-reload failed: {(done.err or done.out).strip()[:300]}")
