# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host is left alone: a wrong value, an unfit host, or others that depend on its servers. Pure."""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional

from .allocators import ALLOCATORS

METHODS = {"systemd": "systemd", "sysv": "systemd", "mysqld_safe": "mysqld_safe"}
"""The delivery method that each launcher honours."""

SOLARIS = ("hoard", "mtmalloc", "umem")
"""The allocators that are asked for by name on Solaris and illumos only."""

BEFORE_RECOVERY = ("bad_value", "lease_held")
"""What stops even the recovery of an interrupted run; everything else is judged again after it."""


class Refusal(Exception):
    """Why a host is left alone: ``status`` (``refused`` or ``failed``), the reason code and a sentence."""

    def __init__(self, status: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def check_name(name: str, system: str) -> None:
    """Refuse an ``allocator_name`` that no host of this operating system can have."""
    absent = ("glibc",) if system == "SunOS" else SOLARIS
    names = [known for known in ALLOCATORS if known not in absent]
    if name not in names and not name.startswith("/"):
        problem = f"which {system} does not have" if name in absent else "which is no allocator"
        raise Refusal(
            "failed",
            "bad_value",
            f"allocator_name is '{name}', {problem}. "
            f"Use one of {', '.join(sorted(names))}, or the absolute path of a library.",
        )


def held(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Return the live lease of another run."""
    lease: Optional[Mapping[str, Any]] = observed.get("lease")
    return lease if lease and lease["live"] and lease["run_id"] != desired.get("run_id") else None


def at_work(lease: Mapping[str, Any]) -> Refusal:
    """Name the run that has the host."""
    return Refusal(
        "failed",
        "lease_held",
        f"run {lease['run_id']} ({lease['holder']}) is at work on this host. Wait until it has ended. "
        f"If it was killed, its lease expires at {_clock(lease['expires'])}; the next run then undoes what it left, "
        f"and rollback.yml -e tuning_run_id={lease['run_id']} does so at once.",
    )


def check_host(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> None:
    """Refuse a host that another run holds, that could not be undone, or that has no server.

    A run that has committed and not yet given its lease back changes nothing any more; ``plan`` only refuses
    to change the host then.
    """
    last = observed.get("last_run")
    lease = held(observed, desired)
    if lease and not (last and last["run_id"] == lease["run_id"] and last["state"] == "committed"):
        raise at_work(lease)
    down = [i["name"] for i in observed["instances"] if i["launcher"]["kind"] == "stopped"]
    if down and last and last["state"] == "restore_failed":
        raise Refusal(
            "failed",
            "restore_failed",
            f"{', '.join(down)} is down since run {last['run_id']} could not be undone. Find out what stops the server, "
            "then run rollback.yml: it puts the files back and starts the server.",
        )
    if not observed["instances"]:
        raise Refusal(
            "failed",
            "no_mysqld",
            "no mysqld or mariadbd runs here, and no systemd unit would start one. "
            "Install a server, or take the host out of the group.",
        )


def _clock(epoch: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(epoch))


def restart_refusal(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> str:
    """Return why the running servers of this host must not be restarted; empty if they may.

    A server that an interrupted run left half-way may always be brought back.
    """
    if observed.get("unfinished"):
        return ""
    try:
        for instance in observed["instances"]:
            if instance["launcher"]["kind"] != "stopped":
                check_role(instance, desired)
    except Refusal as refusal:
        return refusal.message
    return ""


def check_role(instance: Mapping[str, Any], desired: Mapping[str, Any]) -> None:
    """Refuse to restart what others depend on, unless the inventory consents; unknown means refuse."""
    topology, name = instance["topology"], instance["name"]
    role, peers = topology["role"], ", ".join(str(peer) for peer in topology["peers"]) or "unknown peers"
    if role == "unknown":
        raise Refusal(
            "failed",
            "topology_unknown",
            f"{name}: whether others depend on this server could not be asked by SQL ({topology['error']}). "
            "Set preflight_defaults_file to a client option file on the host whose account may connect "
            "and has the PROCESS and REPLICATION CLIENT privileges (on MySQL also SELECT on performance_schema).",
        )
    if role == "primary" and not desired.get("include_primaries"):
        raise Refusal(
            "refused",
            "primary",
            f"{name} is a primary ({peers} replicate from it). Set tuning_include_primaries: true to restart it.",
        )
    if role in ("galera", "group_replication") and not desired.get("include_cluster_members"):
        raise Refusal(
            "refused",
            role,
            f"{name} is a member of a {role} cluster ({peers}). "
            "Set tuning_include_cluster_members: true to restart it.",
        )
