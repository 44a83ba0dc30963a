# SPDX-License-Identifier: GPL-3.0-or-later
"""Flight test of a preload: the real daemon, as its user, in its unit's confinement, before any restart.

The daemon prints its help (195 KB with MariaDB 10.11) into a pipe that nobody reads and stops there; by then
ld.so and the library's constructors are done, and its maps and bindings can be read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .command import Completed
from .command import run as run_command
from .elf import ElfError
from .evidence import collect, is_libc, judge
from .preload_list import merged
from .probe_helpers import harmless
from .probe_helpers import helpers as unit_helpers
from .probe_process import DirectProcess, Ending, UnitProcess
from .reasons import advice
from .systemd_env import read_unit

RunCommand = Callable[..., Completed]

CANNOT_PREDICT = "Not tested: crashes, hangs and memory use under load, and what the server's plugins do with this allocator."
PROPERTIES = (
    "User",
    "Group",
    "SupplementaryGroups",
    "AmbientCapabilities",
    "CapabilityBoundingSet",
    "NoNewPrivileges",
    "MemoryDenyWriteExecute",
    "LockPersonality",
    "SystemCallFilter",
    "SystemCallArchitectures",
    "SystemCallErrorNumber",
    "RestrictAddressFamilies",
    "RestrictRealtime",
    "ProtectSystem",
    "ProtectHome",
    "PrivateDevices",
    "InaccessiblePaths",
    "NoExecPaths",
    "ExecPaths",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RootDirectory",
    "RootImage",
    "AppArmorProfile",
    "SELinuxContext",
    "LimitAS",
    "LimitDATA",
    "LimitNOFILE",
    "LimitMEMLOCK",
    "MemoryMax",
)
"""What decides whether a library can be loaded, and is the same for the throwaway unit."""

_DEFAULTS = ("", "no", "infinity", "~", "[not set]", "2147483646", "18446744073709551615")
_LOADER_VARIABLE = re.compile(r"(LD_|MALLOC_|TCMALLOC_|MIMALLOC_|GLIBC_TUNABLES|HEAP)\w*")
_LD_SO = re.compile(
    r"ERROR: ld\.so: object '([^']*)' from LD_PRELOAD cannot be preloaded(?: \(([^)]*)\))?: ignored"
)


class Subject(NamedTuple):
    """What is tested: program, library, user, unit, variables for it, its option file, seconds to wait.

    ``arguments`` make the program print more than a page of memory and do nothing else.
    """

    exe: str
    library: str
    user: Optional[str] = None
    unit: Optional[str] = None
    environment: Mapping[str, str] = {}
    defaults_file: Optional[str] = None
    timeout: float = 20.0
    arguments: Tuple[str, ...] = ("--help", "--verbose")


@dataclass
class Result:
    """``level`` and ``reason`` as of ``evidence.judge``; ``reason`` also ``crash``, ``hang``, ``not_testable``."""

    level: str = "intended"
    reason: Optional[str] = None
    message: str = ""
    bound: Dict[str, Optional[str]] = field(default_factory=dict)
    mapped: List[str] = field(default_factory=list)
    preload: List[str] = field(default_factory=list)
    helpers: List[Dict[str, Any]] = field(default_factory=list)
    method: str = "direct"


class Flight(NamedTuple):
    """One start of the daemon: the facts if it stood still, else how it ended (nothing: it hung)."""

    facts: Optional[Dict[str, Any]]
    ending: Ending
    errors: str


def probe(
    subject: Subject, run: RunCommand = run_command, systemd: Optional[bool] = None, root: str = "/"
) -> Result:
    """Test ``subject`` and return level, reason and a message. Leaves no process behind."""
    pad = _Pad(subject, run, os.path.isdir("/run/systemd/system") if systemd is None else systemd, root)
    result = Result(preload=pad.preload, method=pad.method)
    flight = pad.fly(pad.preload)
    result.method = pad.method
    if flight.facts is None:
        _explain_end(result, subject, flight, pad)
        return result
    _explain_facts(result, subject, flight)
    result.helpers = pad.helpers()
    failed = [helper for helper in result.helpers if helper["ok"] is False]
    if failed:
        result.level, result.reason = "intended", failed[0]["reason"]
        result.message = f"{failed[0]['path']} of {subject.unit} does not start: {failed[0]['message']}"
    elif result.level == "effective":
        result.message = f"{result.message} {CANNOT_PREDICT}"
    return result


class _Pad:
    """Where the flights start: in a transient unit where systemd runs, else as a child of ours."""

    def __init__(self, subject: Subject, run: RunCommand, systemd: bool, root: str) -> None:
        self.subject, self.run = subject, run
        self.unit = (
            read_unit(subject.unit, run, root, without_ours=True) if subject.unit and systemd else None
        )
        foreign = self.unit.preload if self.unit else []
        self.foreign, self.preload = foreign, merged(foreign, [subject.library])
        self.method = "systemd" if systemd else "direct"
        self.properties = self._properties() if systemd else {}

    def _properties(self) -> Dict[str, str]:
        """Return the properties to clone; without a unit only the user."""
        found: Dict[str, str] = {}
        if self.unit:
            names = ",".join(PROPERTIES)
            shown = self.run(["systemctl", "show", "-p", names, "--", self.unit.unit], timeout=30.0).out
            found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
            found = {name: value for name, value in found.items() if value not in _DEFAULTS}
        user = self.subject.user
        if user and found.get("User", "root") != user:
            found.pop("Group", None)
        return dict(found, User=user) if user else found

    def environment(self, preload: Sequence[str]) -> Dict[str, str]:
        """Return the variables that steer ld.so and allocators; others, which may be secret, are left out."""
        unit = self.unit.variables if self.unit else {}
        found = {name: value for name, value in unit.items() if _LOADER_VARIABLE.fullmatch(name)}
        found.update(self.subject.environment)
        found.pop("LD_PRELOAD", None)
        return dict(found, LD_PRELOAD=":".join(preload)) if preload else found

    def fly(self, preload: Sequence[str]) -> Flight:
        subject = self.subject
        options = f"--defaults-file={subject.defaults_file}" if subject.defaults_file else "--no-defaults"
        process = self._start([subject.exe, options, *subject.arguments], self.environment(preload))
        try:
            facts = _facts(process) if process.stands(subject.timeout) else None
            ending = process.ending()
            facts = facts if ending == Ending(None, None) else None
        finally:
            process.kill()
        return Flight(facts, ending, process.errors)

    def _start(self, argv: Sequence[str], environment: Mapping[str, str]) -> DirectProcess:
        """Start it. Properties that this systemd does not know are left out; without --pipe it is our child."""
        timeout = self.subject.timeout
        while self.method == "systemd":
            process = UnitProcess(argv, environment, self.properties, timeout, self.run)
            refused = process.refused()
            if refused is None:
                return process
            process.kill()
            unknown = [
                name for name in self.properties if re.search(rf"\b{name}\b", refused) and name != "User"
            ]
            if not unknown:
                self.method = "direct"
            for name in unknown:
                del self.properties[name]
        return DirectProcess(argv, environment, self.subject.user, timeout)

    def helpers(self) -> List[Dict[str, Any]]:
        """Start the interpreters of the unit's helpers, and /bin/sh, with the preload and nothing to do."""
        paths = unit_helpers(self.unit, self.subject.exe, self.run) if self.unit else []
        return [self._helper(path) for path in paths]

    def _helper(self, path: str) -> Dict[str, Any]:
        interpreter, command = harmless(path)
        told: Dict[str, Any] = {"path": path, "interpreter": interpreter, "ok": None, "reason": None}
        if not command:
            return dict(told, message="a program of its own, it was not started")
        user, timeout = self.subject.user, self.subject.timeout
        process = DirectProcess(command, self.environment(self.preload), user, timeout)
        try:
            process.stands(timeout)
            ending = process.ending()
        finally:
            process.kill()
        if ending == Ending(0, None):
            return dict(told, ok=True, message="starts with the preload")
        reason = "hang" if ending == Ending(None, None) else "crash"
        return dict(told, ok=False, reason=reason, message=f"{interpreter} {_ended(ending, timeout)}")


def _facts(process: DirectProcess) -> Optional[Dict[str, Any]]:
    """Read the standing daemon's memory; None if it is gone already."""
    pid = process.pid
    try:
        return dict(collect(pid), confinement=_confinement(pid)) if pid else None
    except (OSError, ElfError):
        return None


def _confinement(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/attr/current", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip("\0\n ") or "unconfined"
    except OSError:
        return "unconfined"


def _explain_facts(result: Result, subject: Subject, flight: Flight) -> None:
    """Turn the facts of a standing daemon into level, reason and message."""
    facts = flight.facts or {}
    result.level, result.reason, words = explain(facts, subject.library, flight.errors)
    result.bound, result.mapped = facts["bound"], facts["mapped"]
    if result.level == "effective":
        result.message = f"{subject.exe} starts with {subject.library}, and malloc and free are bound to it."
        return
    result.message = (
        f"{subject.exe} starts, but {subject.library} does not work in it ({result.reason}): {words}. "
        f"{advice(result.reason or '')}"
    ).rstrip()


def explain(facts: Mapping[str, Any], library: str, errors: str) -> Tuple[str, Optional[str], str]:
    """Return level, reason and the finding in words for a program that was just started with ``library``.

    ``facts`` as of ``evidence.collect``; ``errors`` is what it wrote to stderr, where ld.so complains.
    """
    level, reason = judge(facts, library)
    bound = facts["bound"].get("malloc")
    if reason == "second_allocator" and is_libc(bound):
        reason = "not_bound"
    said = loader_problem(errors, library)
    if said and reason in (None, "stale_process") and level != "effective":
        reason = said[0]
    return level, reason, said[1] if said else f"malloc is bound to {bound or 'nothing that is known'}"


def loader_problem(errors: str, library: str) -> Optional[Tuple[str, str]]:
    """Return reason and ld.so's own words if it said that it ignores the library."""
    for path, why in _LD_SO.findall(errors):
        if path == library:
            return _loader_reason(why, library), f"ld.so says {why or 'cannot be preloaded'!r}"
    return None


def _loader_reason(why: str, library: str) -> str:
    if "wrong ELF class" in why:
        return "elf_class"
    if "cannot open shared object" in why:
        return "unreadable" if os.path.exists(library) else "not_found"
    if re.search("invalid ELF header|file too short|wrong ELF data", why):
        return "not_elf"
    if "failed to map segment" in why:
        return "not_mapped"
    return "not_loadable" if why else "secure_exec"


def _explain_end(result: Result, subject: Subject, flight: Flight, pad: _Pad) -> None:
    """A daemon that did not stand: is it the library, or does this daemon not do so at all?"""
    ended = _ended(flight.ending, subject.timeout)
    bare = pad.fly(pad.foreign)
    if bare.facts is None:
        result.reason = "not_testable"
        result.message = (
            f"{subject.exe} --help --verbose {_ended(bare.ending, subject.timeout)} also without {subject.library}, "
            f"so this says nothing about it.{_last_words(bare.errors)}"
        )
        return
    result.reason = "hang" if flight.ending == Ending(None, None) else "crash"
    result.message = (
        f"{subject.exe} {ended} with {subject.library}, and starts without it.{_last_words(flight.errors)} "
        "Choose another library."
    )


def _ended(ending: Ending, seconds: float) -> str:
    if ending.signal:
        return f"is killed by {ending.signal} at its start"
    if ending.code is None:
        return f"hangs at its start (nothing for {seconds:g} s)"
    return f"ends at its start with exit code {ending.code}"


def _last_words(errors: str) -> str:
    skipped = (
        "Running as unit",
        "Finished with",
        "Main processes",
        "Service runtime",
        "CPU time",
        "IP traffic",
    )
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith(skipped)]
    return f" It said: {lines[-1][:300]}." if lines else ""
