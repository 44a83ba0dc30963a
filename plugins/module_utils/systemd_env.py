# SPDX-License-Identifier: GPL-3.0-or-later
"""What a systemd unit will have in its environment at the next start, and our part of it.

Everything is read from the files, as they are now, so that the answer holds for what a ``daemon-reload`` will
bring, not for what the manager once read. Precedence by systemd.exec(5): ``UnsetEnvironment=`` beats
``EnvironmentFile=`` (a later one beats an earlier one) beats ``Environment=``, wherever they stand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .command import Completed
from .command import run as run_command
from .preload_list import split_preload
from .systemd_files import Files, drop_ins
from .systemd_parse import (
    assignments,
    environment_file,
    environment_line,
    expand,
    specifiers,
    unit_settings,
    words,
)
from .tunables import tunables

RunCommand = Callable[..., Completed]

DROP_IN = "zz-fleet-mysqltune.conf"
ENVIRONMENT_DIRECTORY = "/etc/fleet-mysqltune"
_UNIT = re.compile(r"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]+)?\.service")
_PROPERTIES = "Id,Names,LoadState,FragmentPath,MainPID,EnvironmentFiles"
_MANAGED = "# Managed by fleet.mysqltune:"


class UnitError(Exception):
    """The unit cannot be used. ``reason`` is one word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Source(NamedTuple):
    """One place that sets variables: its kind (``Environment`` or ``EnvironmentFile``) and what it sets.

    ``setter`` is the unit file or drop-in, ``path`` the file that holds the value.
    """

    kind: str
    setter: str
    path: str
    variables: Dict[str, str]


@dataclass
class UnitEnvironment:
    """A unit's environment at its next start.

    ``sources`` in rising strength, ``unset`` the names that are taken away at the end. ``managed``: our
    drop-in is there; ``loaded``: the manager has read it.
    """

    unit: str
    main_pid: int = 0
    fragment: str = ""
    drop_ins: List[str] = field(default_factory=list)
    sources: List[Source] = field(default_factory=list)
    unset: Dict[str, str] = field(default_factory=dict)
    managed: bool = False
    loaded: bool = False

    @property
    def variables(self) -> Dict[str, str]:
        result: Dict[str, str] = {}
        for source in self.sources:
            result.update(source.variables)
        return {name: value for name, value in result.items() if name not in self.unset}

    @property
    def preload(self) -> List[str]:
        return split_preload(self.variables.get("LD_PRELOAD", ""))

    def setter_of(self, name: str) -> Optional[str]:
        """Return the file that decides a variable's value."""
        if name in self.unset:
            return self.unset[name]
        found = [source.path for source in self.sources if name in source.variables]
        return found[-1] if found else None


def unit_name(unit: str) -> str:
    """Return the full name; ``UnitError`` if it cannot be the name of one service."""
    name = unit if unit.endswith(".service") else f"{unit}.service"
    if not _UNIT.fullmatch(name):
        raise UnitError("invalid_unit", f"{unit!r} is not the name of a systemd service")
    return name


def drop_in_path(unit: str) -> str:
    """Return the path of our drop-in."""
    return f"/etc/systemd/system/{unit}.d/{DROP_IN}"


def environment_path(unit: str) -> str:
    """Return the path of our environment file."""
    return f"{ENVIRONMENT_DIRECTORY}/{unit}.env"


def drop_in_text(unit: str) -> str:
    """Return our drop-in."""
    return (
        f"{_MANAGED} a preload for {unit} and its helpers. Edits are lost.\n"
        "# An EnvironmentFile= beats any Environment=, the last one beats the others. With its file gone (-)\n"
        "# the server starts all the same.\n"
        f"[Service]\nEnvironmentFile=-{environment_path(unit).replace('%', '%%')}\n"
    )


def environment_text(unit: str, preload: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return our environment file."""
    lines = [f"{_MANAGED} what {unit} gets at its next start. Edits are lost.\n"]
    if preload:
        lines.append(environment_line("LD_PRELOAD", ":".join(preload)))
    lines += [environment_line(name, value) for name, value in sorted(environment.items())]
    return "".join(lines)


def read_unit(
    unit: str,
    run: RunCommand = run_command,
    root: str = "/",
    planned: Optional[Mapping[str, Optional[str]]] = None,
    without_ours: bool = False,
) -> UnitEnvironment:
    """Read the unit; ``UnitError`` if there is no systemd or no such unit.

    ``planned`` replaces contents of files (None: absent); ``without_ours`` leaves our own drop-in out.
    """
    shown = _show(unit_name(unit), run)
    name = shown["Id"]
    plan = dict(planned or {})
    if without_ours:
        plan[drop_in_path(name)] = None
    return read_files(name, shown, Files(root, plan), lambda: _comment_continues(run))


def _show(unit: str, run: RunCommand) -> Dict[str, str]:
    done = run(["systemctl", "show", "-p", _PROPERTIES, "--", unit], timeout=30.0)
    if done.rc:
        raise UnitError("no_systemd", f"systemctl show {unit} failed: {(done.err or done.out).strip()[:300]}")
    shown: Dict[str, str] = {}
    for name, _, value in (line.partition("=") for line in done.out.splitlines()):
        shown[name] = f"{shown[name]}\n{value}" if name in shown else value
    state = shown.get("LoadState", "")
    if state != "loaded":
        raise UnitError(
            "no_unit", f"{unit} cannot be used, systemd says {state or 'nothing'!r} about it. {_HINT}"
        )
    return dict({"Id": unit, "Names": unit, "FragmentPath": ""}, **shown)


_HINT = "List what there is with 'systemctl list-units --type=service'"


def _comment_continues(run: RunCommand) -> bool:
    match = re.match(r"systemd (\d+)", run(["systemctl", "--version"], timeout=30.0).out)
    return bool(match) and int(match.group(1)) < 254 if match else False


def read_files(
    unit: str, shown: Mapping[str, str], files: Files, comment_continues: Callable[[], bool] = lambda: True
) -> UnitEnvironment:
    """Put together what the unit's files say, in systemd's order."""
    fragment = shown.get("FragmentPath", "")
    found = drop_ins(shown.get("Names", unit).split() or [unit], files)
    result = UnitEnvironment(unit, int(shown.get("MainPID") or 0), fragment, found)
    result.managed = drop_in_path(unit) in found
    result.loaded = environment_path(unit) in shown.get("EnvironmentFiles", "")
    reader = _Reader(unit, files, comment_continues)
    for path in [fragment, *found]:
        reader.read(path)
    result.sources = [*reader.environment, *reader.expanded_files()]
    result.unset = reader.unset
    return result


class _Reader:
    """Collects the settings of a unit's files in their order; an empty assignment resets what came before."""

    def __init__(self, unit: str, files: Files, comment_continues: Callable[[], bool]) -> None:
        self.files, self.specifiers = files, specifiers(unit)
        self.comment_continues = comment_continues
        self.environment: List[Source] = []
        self.patterns: List[Tuple[str, str]] = []
        self.unset: Dict[str, str] = {}

    def read(self, path: str) -> None:
        for setting in unit_settings(self.files.read(path) or "") if path else ():
            if setting.section == "Service":
                self.take(setting.key, setting.value, path)

    def take(self, key: str, value: str, path: str) -> None:
        if key == "Environment":
            variables = {name: expand(text, self.specifiers) for name, text in assignments(value).items()}
            self.environment = [*self.environment, Source(key, path, path, variables)] if value else []
        elif key == "EnvironmentFile":
            self.patterns = [*self.patterns, (expand(value, self.specifiers), path)] if value else []
        elif key == "UnsetEnvironment":
            self.unset = (
                dict(self.unset, **{word.split("=")[0]: path for word in words(value)}) if value else {}
            )

    def expanded_files(self) -> List[Source]:
        return [
            Source("EnvironmentFile", setter, path, self.variables(path))
            for pattern, setter in self.patterns
            for path in self.files.matching(pattern.lstrip("-"))
        ]

    def variables(self, path: str) -> Dict[str, str]:
        text = self.files.read(path) or ""
        continued = any(line.lstrip()[:1] in ("#", ";") and line.endswith("\\") for line in text.split("\n"))
        return environment_file(text, self.comment_continues() if continued else True)


def configured_preload(unit: str, run: RunCommand = run_command, root: str = "/") -> Dict[str, Any]:
    """Return ``{paths, managed, overridden_by, variables, own_variables}`` of the unit's next start.

    ``paths`` is what it preloads, in order. ``overridden_by`` names the files that take the place of our entry, if it is
    there and does not count. ``variables`` are the allocators' variables, ``own_variables`` those that our file sets.
    """
    unit_environment = read_unit(unit, run, root)
    ours = [
        one.variables
        for one in unit_environment.sources
        if one.path == environment_path(unit_environment.unit)
    ]
    return {
        "paths": unit_environment.preload,
        "managed": unit_environment.managed,
        "overridden_by": overridden_by(unit_environment),
        "variables": tunables(unit_environment.variables),
        "own_variables": tunables(ours[-1] if ours else {}),
    }


def overridden_by(environment: UnitEnvironment) -> List[str]:
    """Return the files that keep our own LD_PRELOAD from the unit although our drop-in is there."""
    if not environment.managed:
        return []
    if "LD_PRELOAD" in environment.unset:
        return [environment.unset["LD_PRELOAD"]]
    ours, drop_in = environment_path(environment.unit), drop_in_path(environment.unit)
    files = [source for source in environment.sources if source.kind == "EnvironmentFile"]
    places = [index for index, source in enumerate(files) if source.path == ours]
    if not places:
        return environment.drop_ins[environment.drop_ins.index(drop_in) + 1 :]
    wanted = set(split_preload(files[places[-1]].variables.get("LD_PRELOAD", "")))
    later = [source.path for source in files[places[-1] + 1 :] if "LD_PRELOAD" in source.variables]
    return later if later and not wanted <= set(environment.preload) else []
