# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts of the host itself: system, init, memory with its limit, pages, processors."""

from __future__ import annotations

import mmap
import os
import re
import shlex
from typing import Any, Dict, Optional

from .option_file import read

THP = "kernel/mm/transparent_hugepage/enabled"
LIMITS = ("fs/cgroup/memory.max", "fs/cgroup/memory/memory.limit_in_bytes")


def host_facts(proc: str = "/proc", sys: str = "/sys", root: str = "/") -> Dict[str, Any]:
    """Return the facts; memory in bytes, ``memory_limit`` never above ``memory_total``."""
    name = os.uname()
    total = memory_total(read(os.path.join(proc, "meminfo")) or "")
    limits = [limit for limit in (_limit(os.path.join(sys, path)) for path in LIMITS) if limit]
    return {
        "hostname": name.nodename,
        "system": name.sysname,
        "machine": name.machine,
        "init": "systemd" if os.path.isdir(os.path.join(root, "run/systemd/system")) else "other",
        "distribution": distribution(read(os.path.join(root, "etc/os-release")) or ""),
        "page_size": mmap.PAGESIZE,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_total": total,
        "memory_limit": min([total, *limits]),
        "thp": thp(read(os.path.join(sys, THP)) or ""),
        "container": in_container(root, proc),
    }


def distribution(text: str) -> Dict[str, Any]:
    """Parse os-release(5) into ``id``, ``version`` and the families that it is ``like``."""
    values = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            values[key.strip()] = " ".join(shlex.split(value))
    return {
        "id": values.get("ID", ""),
        "version": values.get("VERSION_ID", ""),
        "like": values.get("ID_LIKE", "").split(),
    }


def memory_total(meminfo: str) -> int:
    """Return the bytes of memory that /proc/meminfo tells, 0 if it does not."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", meminfo, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def thp(text: str) -> str:
    """Return the chosen word of the kernel's list: ``always``, ``madvise`` or ``never``, else ``unknown``."""
    match = re.search(r"\[(\w+)\]", text)
    return match.group(1) if match else "unknown"


def _limit(path: str) -> Optional[int]:
    text = (read(path) or "").strip()
    return int(text) if text.isdigit() else None


def in_container(root: str = "/", proc: str = "/proc") -> bool:
    """Tell whether the kernel is that of another machine: by files, or by what the first process was started with."""
    marks = ("run/.containerenv", ".dockerenv", "run/systemd/container")
    first = (read(os.path.join(proc, "1/environ")) or "").split("\0")
    return any(os.path.exists(os.path.join(root, mark)) for mark in marks) or any(
        variable.startswith(("container=", "KUBERNETES_SERVICE_HOST=")) for variable in first
    )
