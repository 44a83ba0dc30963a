# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe a host in one go: every server, every allocator library, the lease. Nothing is ever written."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from . import multi
from .built import PREFIX
from .command import Run
from .command import run as run_command
from .host_facts import host_facts
from .instance import Asked, running, stopped
from .journal import STATE_ROOT, summary
from .launcher import Unit, parse_units, read_cgroup, unit_of
from .libraries import libraries
from .managed import managed_files
from .processes import servers

UNIT_NAME = re.compile(r"(mysql|mysqld|mariadb|mariadbd|percona|percona-server)(@[^.]+)?\.service")
UNIT_DIRECTORIES = (
    "etc/systemd/system",
    "etc/systemd/system/*.wants",
    "run/systemd/system",
    "run/systemd/generator.late",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
UNIT_PROPERTIES = "Id,MainPID,LoadState,ActiveState,SourcePath,FragmentPath,ExecStart"


class ObserveError(Exception):
    """Why a host cannot be observed: one sentence."""


def observe(
    search_path: Sequence[str] = (),
    defaults_file: Optional[str] = None,
    proc: str = "/proc",
    run: Run = run_command,
    root: str = "/",
    state_root: str = STATE_ROOT,
    topology: bool = True,
    prefix: str = PREFIX,
) -> Dict[str, Any]:
    """Return ``host``, ``instances``, ``libraries``, ``managed_files``, ``lease``, ``unfinished`` and ``last_run``.

    What was built below ``prefix`` is among the libraries. Without ``topology`` the servers are asked for
    version and directories only. Raises ``ObserveError``.
    """
    if os.geteuid() != 0:
        raise ObserveError("only root can look into the servers' processes. Use become: true.")
    if defaults_file and not os.path.isfile(defaults_file):
        raise ObserveError(
            f"defaults_file {defaults_file} does not exist on this host. Create it there (mode 0600), "
            "or leave it out to use socket authentication."
        )
    host = host_facts(proc, root=root)
    asked = Asked(defaults_file, topology, proc, run)
    return {
        "host": host,
        "instances": _instances(asked, host["init"], root),
        "libraries": libraries([*search_path, *built_directories(prefix, root)], run, root),
        "managed_files": managed_files(state_root),
        **summary(state_root),
    }


def built_directories(prefix: str, root: str = "/") -> List[str]:
    """Return where the libraries are that were built on this host."""
    return sorted(glob.glob(os.path.join(root, prefix.lstrip("/"), "*", "lib")))


def _instances(asked: Asked, init: str, root: str) -> List[Dict[str, Any]]:
    pids = servers(asked.proc)
    units_by_pid = {pid: unit_of(read_cgroup(pid, asked.proc)) for pid in pids}
    names = sorted({*unit_files(root), *(name for name in units_by_pid.values() if name)})
    units = show(names, asked.run) if init == "systemd" else {}
    seen = [_observed(pid, units.get(units_by_pid[pid] or ""), asked) for pid in pids]
    found = [instance for instance in seen if instance]
    _give_home(found, units)
    claimed = {instance["launcher"][key] for instance in found for key in ("unit", "init_script")}
    claimed |= set(units_by_pid.values())
    found += [stopped(unit, asked) for unit in idle(units, claimed)]
    return _with_unique_names([*found, *_stopped_groups(found, units, asked)])


def _stopped_groups(
    found: Sequence[Dict[str, Any]], units: Mapping[str, Unit], asked: Asked
) -> List[Dict[str, Any]]:
    """Return the groups of ``mysqld_multi`` that do not run beside one that does: its restart would start them."""
    starters: Dict[Unit, List[Dict[str, Any]]] = {}
    for one in found:
        launcher = one["launcher"]
        unit = units.get(launcher["unit"] or "")
        if one["pid"] and multi.starts_groups(launcher["init_script"], unit and unit.fragment):
            starter = Unit(str(launcher["unit"] or ""), source=launcher["init_script"])
            starters.setdefault(starter, []).append(one)
    return [
        dict(stopped(unit, asked), name=f"{group} of {unit.name or unit.source}", datadir=directory)
        for unit, servers in starters.items()
        for group, directory in multi.missing(
            servers[0]["option_files"], [server["datadir"] for server in servers]
        ).items()
    ]


def _give_home(found: Sequence[Dict[str, Any]], units: Mapping[str, Unit]) -> None:
    """Name the init script of a server that somebody started with it by hand, so that its unit has no process.

    Only where there is no doubt: one unit made from a script that should be running, and one such server, or
    several and a script that calls ``mysqld_multi``.
    """
    homeless = [
        one["launcher"]
        for one in found
        if one["launcher"]["kind"] == "mysqld_safe"
        and not (one["launcher"]["unit"] or one["launcher"]["init_script"])
    ]
    empty = [
        unit.init_script
        for unit in units.values()
        if unit.init_script and unit.active_state == "active" and not unit.main_pid
    ]
    if len(empty) == 1 and (len(homeless) == 1 or multi.starts_groups(empty[0])):
        for launcher in homeless:
            launcher["init_script"] = empty[0]


def _observed(pid: int, unit: Optional[Unit], asked: Asked) -> Optional[Dict[str, Any]]:
    try:
        return running(pid, unit, asked)
    except (FileNotFoundError, ProcessLookupError):
        return None  # it has ended since


def unit_files(root: str = "/") -> List[str]:
    """Return the names of the unit files that would start a server, templates left out."""
    paths = (path for place in UNIT_DIRECTORIES for path in glob.glob(os.path.join(root, place, "*.service")))
    return sorted({name for name in map(os.path.basename, paths) if UNIT_NAME.fullmatch(name)})


def show(names: Sequence[str], run: Run = run_command) -> Dict[str, Unit]:
    """Ask the service manager about all these units at once; aliases come back under the unit's own name."""
    if not names:
        return {}
    done = run(["systemctl", "show", "--no-pager", f"--property={UNIT_PROPERTIES}", *names], timeout=20)
    if done.rc != 0:
        raise ObserveError(f"systemctl show {' '.join(names)} failed: {done.err.strip() or done.out.strip()}")
    return parse_units(done.out)


def idle(units: Mapping[str, Unit], claimed: Set[Optional[str]]) -> List[Unit]:
    """Return the units that would start a server but have none; one that runs something else is none.

    ``claimed`` has the units and the init scripts of the servers that run.
    """
    return [
        unit
        for name, unit in sorted(units.items())
        if not {name, unit.init_script} & claimed - {None}
        and UNIT_NAME.fullmatch(name)
        and unit.load_state == "loaded"
        and not (unit.active_state == "active" and unit.main_pid)
    ]


def _with_unique_names(instances: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    names = [instance["name"] for instance in instances]
    for instance in instances:
        if names.count(instance["name"]) > 1:
            instance["name"] += f" ({instance['socket'] or instance['pid']})"
    return sorted(instances, key=lambda instance: str(instance["name"]))
