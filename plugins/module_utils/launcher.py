# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts a running server: read from its ancestry and its control group, never from the distribution."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .evidence import readlink
from .servers import arguments, parent

SAFE = re.compile(r"(mysqld_safe|mariadbd-safe|safe_mysqld)(\.sh)?")
SHELL = re.compile(r"(ba|da|k|mk|z|a)?sh|busybox|env|su|runuser|setpriv|numactl|taskset|perl")
INIT_DIRECTORIES = ("/etc/init.d/", "/etc/rc.d/init.d/")


class Ancestor(NamedTuple):
    """One process on the way from the server up to the init; ``exe`` is the real path of its program."""

    pid: int
    argv: List[str]
    exe: str

    @property
    def safe(self) -> Optional[str]:
        """The word of its command line that names the mysqld_safe script it runs."""
        return next((word for word in self.argv[:4] if SAFE.fullmatch(os.path.basename(word))), None)

    @property
    def init_script(self) -> Optional[str]:
        return next((word for word in self.argv[:3] if word.startswith(INIT_DIRECTORIES)), None)


class Unit(NamedTuple):
    """What the service manager says about a unit; ``program`` is the server that it starts, if it tells."""

    name: str
    main_pid: int = 0
    load_state: str = "loaded"
    active_state: str = "active"
    source: Optional[str] = None
    fragment: Optional[str] = None
    program: Optional[str] = None

    @property
    def init_script(self) -> Optional[str]:
        """The SysV script that the unit was generated from."""
        return self.source if self.source and self.source.startswith(INIT_DIRECTORIES) else None


def ancestry(pid: int, proc: str = "/proc") -> List[Ancestor]:
    """Return the process and its ancestors below the init."""
    chain: List[Ancestor] = []
    while pid > 1 and pid not in [known.pid for known in chain]:
        try:
            exe = readlink(pid, "exe", proc)
        except OSError:
            exe = ""
        chain.append(Ancestor(pid, arguments(pid, proc), exe))
        pid = parent(pid, proc)
    return chain


def unit_of(cgroup: str) -> Optional[str]:
    """Return the system service that a /proc/PID/cgroup text names, None outside of any.

    Control groups of version 1 (the ``name=systemd`` line), 2 and both; the path may have the prefix of a
    container, and sub-groups below the service.
    """
    lines = [line.split(":", 2) for line in cgroup.splitlines() if line.count(":") >= 2]
    for wanted in ("name=systemd", ""):
        for _number, controllers, path in lines:
            services = [part for part in path.split("/") if part.endswith(".service")]
            if controllers == wanted and services and not services[0].startswith("user@"):
                return services[-1]
    return None


def read_cgroup(pid: int, proc: str = "/proc") -> str:
    """Return the text of /proc/PID/cgroup, empty if there is none."""
    try:
        with open(os.path.join(proc, str(pid), "cgroup"), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def determine(chain: Sequence[Ancestor], unit: Optional[Unit], proc: str = "/proc") -> Dict[str, Any]:
    """Return the launcher of the server that ``chain`` begins with; ``unit`` is that of its control group."""
    safe = next((known for known in chain[1:] if known.safe), None)
    unit = unit if unit and responsible(chain, safe, unit) else None
    named = next((known.init_script for known in chain if known.init_script), None)
    script = unit.init_script if unit else None
    masked = unit is not None and unit.load_state == "masked"
    result = nothing("masked" if masked else _kind(safe, unit, script or named))
    result["unit"] = unit.name if unit else None
    result["init_script"] = script or named
    if safe:
        result.update(script_paths(safe, proc))
    return result


def nothing(kind: str) -> Dict[str, Any]:
    """Return a launcher of which only the kind is known."""
    return {"kind": kind, **dict.fromkeys(("unit", "script", "script_link", "init_script", "fmri"))}


def _kind(safe: Optional[Ancestor], unit: Optional[Unit], init_script: Optional[str]) -> str:
    if safe:
        return "mysqld_safe"
    if init_script:
        return "sysv"
    return "systemd" if unit else "bare"


def responsible(chain: Sequence[Ancestor], safe: Optional[Ancestor], unit: Unit) -> bool:
    """Tell whether the unit starts the server, rather than a shell or cron job in which somebody started it.

    Its main process has to be the server, its mysqld_safe or a script above; a unit without main process
    (SysV scripts) has to have left the top of the chain to the init.
    """
    if unit.load_state not in ("loaded", "masked"):
        return False
    if not unit.main_pid:
        top = chain[-1]
        return top.pid in (chain[0].pid, safe.pid if safe else 0) or bool(top.init_script or _shell(top))
    main = next((known for known in chain if known.pid == unit.main_pid), None)
    return main is not None and (main.pid == chain[0].pid or bool(main.safe) or _shell(main))


def _shell(process: Ancestor) -> bool:
    return bool(SHELL.fullmatch(os.path.basename(process.exe)))


def script_paths(safe: Ancestor, proc: str = "/proc") -> Dict[str, Optional[str]]:
    """Return ``script`` (real path) and ``script_link`` (as invoked) of a mysqld_safe process.

    A shell holds its script open, which gives the real path even for a relative invocation.
    """
    word = str(safe.safe)
    link = word if word.startswith("/") else None
    if link and os.path.exists(link):
        return {"script": os.path.realpath(link), "script_link": link}
    opened = _open_script(safe.pid, proc)
    return {"script": opened or link, "script_link": link or opened}


def _open_script(pid: int, proc: str) -> Optional[str]:
    try:
        numbers = sorted(os.listdir(os.path.join(proc, str(pid), "fd")), key=int, reverse=True)
    except OSError:
        return None
    for number in numbers:
        try:
            path = readlink(pid, f"fd/{number}", proc)
        except OSError:
            continue
        if SAFE.fullmatch(os.path.basename(path)):
            return path
    return None


def parse_units(text: str) -> Dict[str, Unit]:
    """Parse the blocks of ``systemctl show`` into units by their id."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if values.get("Id"):
            found[values["Id"]] = _unit(values)
    return found


def _unit(values: Mapping[str, str]) -> Unit:
    program = re.search(r"[ =](/\S*/(?:mysqld|mariadbd))\s", values.get("ExecStart", ""))
    return Unit(
        name=values["Id"],
        main_pid=int(values.get("MainPID") or 0),
        load_state=values.get("LoadState", ""),
        active_state=values.get("ActiveState", ""),
        source=values.get("SourcePath") or None,
        fragment=values.get("FragmentPath") or None,
        program=program.group(1) if program else None,
    )
