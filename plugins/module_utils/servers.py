# SPDX-License-Identifier: GPL-3.0-or-later
"""The server processes of this host, as the transaction needs them: which process is which instance now."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence

HELPER = {"--wsrep_recover", "--wsrep-recover", "--help", "--version", "--validate-config"}
"""The server's program with one of these does not serve: a launcher's helper or somebody's question."""


class Process(NamedTuple):
    """A process and when it started, in clock ticks since the boot: a pid alone may be used again."""

    pid: int
    start: int


@dataclass(frozen=True)
class Instance:
    """What ``mysqld_info`` said about an instance, and the library that its next start has to use."""

    name: str
    pid: Optional[int]
    exe: str
    user: str
    kind: str
    unit: Optional[str]
    init_script: Optional[str]
    script: Optional[str]
    datadir: str
    socket: Optional[str]
    client: Optional[str]
    library: Optional[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """The allocator's variables that its next start has to have."""

    reachable: bool = False
    """``mysqld_info`` could ask it by SQL."""

    @classmethod
    def of(cls, observed: Mapping[str, Any]) -> Instance:
        launcher: Mapping[str, Any] = observed.get("launcher") or {}
        sql: Mapping[str, Any] = observed.get("sql") or {}
        return cls(
            name=str(observed["name"]),
            pid=observed.get("pid"),
            exe=str(observed.get("exe") or ""),
            user=str(observed.get("user") or "mysql"),
            kind=str(launcher.get("kind") or "stopped"),
            unit=launcher.get("unit"),
            init_script=launcher.get("init_script"),
            script=launcher.get("script"),
            datadir=str(observed.get("datadir") or ""),
            socket=observed.get("socket"),
            client=sql.get("client"),
            library=observed.get("library"),
            environment=observed.get("environment") or {},
            reachable=bool(sql.get("reachable")),
        )

    @property
    def stopped(self) -> bool:
        return self.kind == "stopped" or self.pid is None

    @property
    def service(self) -> Optional[str]:
        """The unit that starts the instance again; a session's scope does not."""
        return self.unit if self.unit and not self.unit.endswith((".scope", ".slice")) else None

    @property
    def starter(self) -> Optional[str]:
        """The unit or the init script that starts the instance, and whatever else it starts."""
        return self.service or self.init_script


def start_ticks(pid: int, proc: str = "/proc") -> Optional[int]:
    """Return when the process started; None if it is gone or only waits to be buried."""
    fields = _stat(pid, proc)
    return int(fields[19]) if fields and fields[0] not in (b"Z", b"X") else None


def parent(pid: int, proc: str = "/proc") -> int:
    """Return the pid of the parent, 0 if there is none."""
    fields = _stat(pid, proc)
    return int(fields[1]) if fields else 0


def _stat(pid: int, proc: str) -> List[bytes]:
    try:
        with open(os.path.join(proc, str(pid), "stat"), "rb") as stream:
            return stream.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return []


def alive(process: Optional[Process], proc: str = "/proc") -> bool:
    """Tell whether this very process still runs."""
    return process is not None and start_ticks(process.pid, proc) == process.start


def identify(pid: Optional[int], proc: str = "/proc") -> Optional[Process]:
    """Return the process that has this pid now."""
    start = start_ticks(pid, proc) if pid else None
    return Process(pid, start) if pid and start is not None else None


def find(instance: Instance, proc: str = "/proc") -> Optional[Process]:
    """Return the instance's server process as it is now, None if it does not run.

    It is the process with the instance's program inside its unit, or with its data directory as working
    directory or argument. If more than one is in the unit, the data directory decides, then the youngest; a single one
    that has been told no directory is taken as well.
    """
    running = [pid for pid in _pids(proc) if _link(pid, "exe", proc) == instance.exe]
    candidates = [pid for pid in running if not HELPER.intersection(arguments(pid, proc))]
    if instance.service:
        candidates = [pid for pid in candidates if _in_unit(pid, instance.service, proc)]
        at_home = [pid for pid in candidates if _at_home(pid, instance, proc)]
        alone = candidates if len(candidates) == 1 and not _directories(candidates[0], proc) else []
        candidates = at_home or alone
    else:
        candidates = [pid for pid in candidates if _at_home(pid, instance, proc)]
    found = [process for process in (identify(pid, proc) for pid in candidates) if process]
    return max(found, key=lambda process: process.start, default=None)


def tree(instance: Instance, proc: str = "/proc") -> List[int]:
    """Return the server and what restarts it (``mysqld_safe``), the restarting process first.

    Without a server it is a restarting process of the same script that has no server at the moment.
    """
    server = find(instance, proc)
    keepers = [pid for pid in _pids(proc) if instance.script and instance.script in _scripts(pid, proc)]
    if server:
        return [pid for pid in keepers if pid == parent(server.pid, proc)] + [server.pid]
    busy = {parent(pid, proc) for pid in _pids(proc) if _link(pid, "exe", proc) == instance.exe}
    return [pid for pid in keepers if pid not in busy and start_ticks(pid, proc) is not None]


def strangers(unit: str, known: Sequence[Instance], proc: str = "/proc") -> List[int]:
    """Return the servers in a unit that are none of the known instances: its restart would restart them too."""
    programs = {os.path.basename(instance.exe) for instance in known}
    found = [find(instance, proc) for instance in known]
    ours = {process.pid for process in found if process}
    return [
        pid
        for pid in _pids(proc)
        if os.path.basename(_link(pid, "exe", proc)) in programs
        and pid not in ours
        and _in_unit(pid, unit, proc)
        and not HELPER.intersection(arguments(pid, proc))
    ]


def _scripts(pid: int, proc: str) -> List[str]:
    """Return the real paths of a process's first arguments: a script is one of them."""
    return [os.path.realpath(word) for word in arguments(pid, proc)[:3] if word.startswith("/")]


def arguments(pid: int, proc: str = "/proc") -> List[str]:
    """Return the command line of a process, empty if it is gone."""
    try:
        with open(os.path.join(proc, str(pid), "cmdline"), "rb") as stream:
            return stream.read().decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
    except OSError:
        return []


def bytes_moved(pid: int, proc: str = "/proc") -> int:
    """Return how many bytes the process has read and written until now, 0 if it is gone."""
    try:
        with open(os.path.join(proc, str(pid), "io"), encoding="ascii") as stream:
            counters = dict(line.split(": ") for line in stream.read().splitlines())
    except OSError:
        return 0
    return sum(int(counters[name]) for name in ("rchar", "wchar", "read_bytes", "write_bytes"))


def output_file(pid: int, proc: str = "/proc") -> Optional[str]:
    """Return the error log: the regular file that the process writes its errors to, if it is one."""
    path = _link(pid, "fd/2", proc)
    return path if path.startswith("/") and os.path.isfile(path) else None


def _pids(proc: str) -> Iterator[int]:
    return (int(name) for name in os.listdir(proc) if name.isdigit())


def _link(pid: int, name: str, proc: str) -> str:
    """Return where a link of the process leads; the file may have been replaced since."""
    try:
        target = os.readlink(os.path.join(proc, str(pid), name))
    except OSError:
        return ""
    return target[: -len(" (deleted)")] if target.endswith(" (deleted)") else target


def _in_unit(pid: int, unit: str, proc: str) -> bool:
    try:
        with open(os.path.join(proc, str(pid), "cgroup"), encoding="utf-8", errors="replace") as stream:
            return any(unit in line.rstrip("\n").split("/") for line in stream)
    except OSError:
        return False


def _at_home(pid: int, instance: Instance, proc: str) -> bool:
    home = os.path.realpath(instance.datadir)
    if os.path.realpath(_link(pid, "cwd", proc) or "/") == home:
        return True
    return any(os.path.realpath(path) == home for path in _directories(pid, proc))


def _directories(pid: int, proc: str) -> List[str]:
    """Return the data directories that the process was told on its command line."""
    return [word.split("=", 1)[1] for word in arguments(pid, proc) if word.startswith("--datadir=")]


def started_since(process: Process, moment: float) -> bool:
    """Tell whether the process started after ``moment`` (seconds since the boot)."""
    return process.start / os.sysconf("SC_CLK_TCK") >= moment - 0.02
