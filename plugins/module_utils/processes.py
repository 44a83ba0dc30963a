# SPDX-License-Identifier: GPL-3.0-or-later
"""The server processes of this host and what the kernel says about each."""

from __future__ import annotations

import os
import pwd
import re
from typing import Any, Dict, List, Optional, Set

from .evidence import readlink
from .option_file import read
from .servers import HELPER, arguments, parent, start_ticks

SERVER = re.compile(r"(mysqld|mariadbd)([-.]?(debug|[0-9.]+))?")
LISTENING = 0x10000
PSS_LIMIT = 32 << 30
"""Above this resident size the kernel would hold the server's memory map too long to add up its pages."""


def servers(proc: str = "/proc") -> List[int]:
    """Return the pids of the servers that belong to this host, not to a container on it.

    A service may have a mount namespace of its own (``PrivateTmp``); a pid namespace is a container's.
    """
    own = _namespace("self", proc)
    pids = [int(name) for name in os.listdir(proc) if name.isdigit()]
    named = {pid for pid in sorted(pids) if _is_server(pid, proc)}
    ours = [pid for pid in sorted(named) if _namespace(str(pid), proc) == own]
    return [pid for pid in ours if parent(pid, proc) not in named and start_ticks(pid, proc) is not None]


def _is_server(pid: int, proc: str) -> bool:
    command = (read(os.path.join(proc, str(pid), "comm")) or "").strip()
    if not SERVER.fullmatch(command):
        try:
            if not SERVER.fullmatch(os.path.basename(readlink(pid, "exe", proc))):
                return False
        except OSError:
            return False
    return not HELPER.intersection(arguments(pid, proc)) and bool(arguments(pid, proc))


def _namespace(pid: str, proc: str) -> Optional[str]:
    try:
        return os.readlink(os.path.join(proc, pid, "ns/pid"))
    except OSError:
        return None


def started(pid: int, proc: str = "/proc") -> float:
    """Return when the process started, in seconds since the epoch."""
    match = re.search(r"^btime (\d+)", read(os.path.join(proc, "stat")) or "", re.MULTILINE)
    ticks = start_ticks(pid, proc) or 0
    return round((int(match.group(1)) if match else 0) + ticks / os.sysconf("SC_CLK_TCK"), 2)


def user(pid: int, proc: str = "/proc") -> str:
    """Return the name (or number) of the user that the process runs as now."""
    uid = os.stat(os.path.join(proc, str(pid))).st_uid
    match = re.search(
        r"^Uid:\s*\d+\s+(\d+)", read(os.path.join(proc, str(pid), "status")) or "", re.MULTILINE
    )
    uid = int(match.group(1)) if match else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def memory(pid: int, proc: str = "/proc") -> Dict[str, Optional[int]]:
    """Return ``rss``, ``pss`` and ``anon_huge_pages`` in bytes; None where they are not known or too dear."""
    resident = _kilobytes(read(os.path.join(proc, str(pid), "status")) or "", "VmRSS")
    found = {"rss": resident, "pss": None, "anon_huge_pages": None}
    if resident is None or resident > PSS_LIMIT:
        return found
    rollup = read(os.path.join(proc, str(pid), "smaps_rollup")) or ""
    return dict(found, pss=_kilobytes(rollup, "Pss"), anon_huge_pages=_kilobytes(rollup, "AnonHugePages"))


def _kilobytes(text: str, name: str) -> Optional[int]:
    match = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def confinement(pid: int, proc: str = "/proc") -> str:
    """Return the AppArmor profile or the SELinux context of the process, ``unconfined`` if there is none."""
    return (read(os.path.join(proc, str(pid), "attr/current")) or "").strip("\0\n ") or "unconfined"


def sockets(pid: int, proc: str = "/proc") -> List[str]:
    """Return the paths of the UNIX sockets that the process listens on."""
    listening = parse_unix(read(os.path.join(proc, str(pid), "net/unix")) or "")
    inodes = _inodes(pid, proc)
    return [path for inode, path in listening.items() if inode in inodes]


def parse_unix(text: str) -> Dict[str, str]:
    """Return inode to path of the listening sockets in a /proc/net/unix table."""
    found = {}
    for line in text.splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8 and int(fields[3], 16) & LISTENING:
            found[fields[6]] = fields[7]
    return found


def _inodes(pid: int, proc: str) -> Set[str]:
    found: Set[str] = set()
    directory = os.path.join(proc, str(pid), "fd")
    try:
        names = os.listdir(directory)
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(os.path.join(directory, name))
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def working_directory(pid: int, proc: str = "/proc") -> Optional[str]:
    """Return the working directory of the process, which a server makes its data directory."""
    try:
        return readlink(pid, "cwd", proc)
    except OSError:
        return None


def facts(pid: int, proc: str = "/proc") -> Dict[str, Any]:
    """Return ``user``, ``started``, ``memory`` and ``confinement`` of a server."""
    return {
        "user": user(pid, proc),
        "started": started(pid, proc),
        "memory": memory(pid, proc),
        "confinement": confinement(pid, proc),
    }
