# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen on one host: the difference between what was observed and what is desired.

Pure: dictionaries in, dictionaries out. Everything else in the toolkit gates on the result.

``observed`` is what ``mysqld_info`` returns. ``desired`` has the keys ``allocator`` (a dictionary with
``name`` and ``delivery``), ``include_primaries``, ``include_cluster_members``,
``benchmark`` (``none`` or ``before_after``), ``benchmark_replication_members`` and ``run_id``.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .allocators import ALLOCATORS, classify, package_for
from .evidence import judge

Record = Dict[str, Any]

METHODS = {"systemd": "systemd", "mysqld_safe": "mysqld_safe"}
"""The delivery method that each launcher honours."""

BENCHMARKS = ("none", "before_after")

LAUNCHER_HELP = {
    "bare": "nothing would start it again after a stop. Run it from a systemd unit or from mysqld_safe",
    "sysv": "its init script starts the daemon directly. Run it from a systemd unit or from mysqld_safe",
    "smf": "SMF services cannot be tuned yet",
}


BEFORE_RECOVERY = ("bad_value", "lease_held")
"""What stops even the recovery of an interrupted run; everything else is judged again after it."""


class Refusal(Exception):
    """Why a host is left alone: ``status`` (``refused`` or ``failed``), the reason code and a sentence."""

    def __init__(self, status: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Choice(NamedTuple):
    """The library for one instance: a path (None for ``system``) and the package that will bring it."""

    library: Optional[str]
    package: Optional[str] = None


def plan(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Record:
    """Return ``status``, ``reason``, ``message``, ``notes``, ``packages``, ``instances`` and ``benchmark``.

    ``status`` is ``nothing`` (all is as asked), ``change``, ``stopped`` (no server runs, nothing is done),
    ``refused`` (the host's role forbids it) or ``failed`` (a wrong value or an unfit host).
    ``restart_refusal`` says why none of the running servers may be restarted, whether one has to be or not.
    """
    result: Record = {
        "status": "nothing",
        "reason": None,
        "message": "",
        "notes": _notes(observed, desired),
        "packages": [],
        "instances": [],
        "benchmark": {"measure": False, "reason": None},
        "restart_refusal": restart_refusal(observed, desired),
    }
    try:
        _check_values(desired)
        _check_host(observed, desired)
        result["instances"] = [_plan_instance(i, observed, desired) for i in observed["instances"]]
        _check_topology(observed, desired, result["instances"])
    except Refusal as refusal:
        if observed.get("unfinished") and refusal.reason not in BEFORE_RECOVERY:
            return dict(result, status="change")
        return dict(result, status=refusal.status, reason=refusal.reason, message=refusal.message)
    result["packages"] = sorted({i["package"] for i in result["instances"] if i["package"]})
    result["status"] = _status(observed, result["instances"])
    result["benchmark"] = _benchmark(observed, desired, result["status"])
    return result


def summary(planned: Mapping[str, Any]) -> List[str]:
    """Return one line per instance, or the one line that says why the host was not planned."""
    if planned["message"]:
        return [f"{planned['status']}: {planned['message']}"]
    return [_line(intent) for intent in planned["instances"]]


def _line(intent: Mapping[str, Any]) -> str:
    if intent["state"] == "stopped":
        return f"{intent['name']}: stopped"
    library = intent["library"] or "no preload"
    why = f": {'; '.join(intent['why'])}" if intent["why"] else ""
    return f"{intent['name']}: {intent['level']}{_because(intent['reason'])}, {library}{why}{_runs(intent)}"


def _runs(intent: Mapping[str, Any]) -> str:
    return f"; it runs on {intent['runs']}" if intent["why"] else ""


def _status(observed: Mapping[str, Any], planned: List[Record]) -> str:
    if observed.get("unfinished") or any(i["action"] != "none" for i in planned):
        return "change"
    return "stopped" if all(i["state"] == "stopped" for i in planned) else "nothing"


def _notes(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> List[str]:
    notes = [
        f"run {run['run_id']} was interrupted ({run['state']}): it is undone first"
        for run in observed.get("unfinished") or []
        if run["run_id"] != desired.get("run_id")
    ]
    last = observed.get("last_run")
    if last and last["state"] in ("restored", "restore_failed") and last["run_id"] != desired.get("run_id"):
        notes.append(f"the last run {last['run_id']} ended as {last['state']}: {last['message']}")
    return notes


def _check_values(desired: Mapping[str, Any]) -> None:
    wanted = desired["allocator"]
    name, delivery = wanted["name"], wanted.get("delivery", "auto")
    if name not in ALLOCATORS and not name.startswith("/"):
        raise Refusal(
            "failed",
            "bad_value",
            f"allocator_name is '{name}', which is no allocator. "
            f"Use one of {', '.join(sorted(ALLOCATORS))}, or the absolute path of a library.",
        )
    if delivery not in ("auto", *METHODS.values()):
        raise Refusal(
            "failed",
            "bad_value",
            f"allocator_delivery is '{delivery}'. Use auto, {' or '.join(sorted(METHODS.values()))}.",
        )
    if desired.get("benchmark", "none") not in BENCHMARKS:
        raise Refusal(
            "failed",
            "bad_value",
            f"tuning_benchmark is '{desired['benchmark']}'. Use {' or '.join(BENCHMARKS)}.",
        )


def _check_host(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> None:
    lease = observed.get("lease")
    if lease and lease["live"] and lease["run_id"] != desired.get("run_id"):
        raise Refusal(
            "failed",
            "lease_held",
            f"run {lease['run_id']} ({lease['holder']}) is at work on this host. Wait until it has ended. "
            f"If it was killed, its lease expires at {_clock(lease['expires'])}; the next run then undoes what it left.",
        )
    last = observed.get("last_run")
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


def _plan_instance(
    instance: Mapping[str, Any], observed: Mapping[str, Any], desired: Mapping[str, Any]
) -> Record:
    record: Record = {
        "name": instance["name"],
        "state": "running",
        "action": "none",
        "method": None,
        "unit": instance["launcher"]["unit"],
        "script": instance["launcher"]["script"],
        "runs": instance["allocator"]["name"],
        "allocator": None,
        "library": None,
        "package": None,
        "predicted": False,
        "restart": False,
        "level": instance["allocator"]["level"],
        "reason": instance["allocator"]["reason"],
        "why": [],
    }
    if instance["launcher"]["kind"] == "stopped":
        return dict(record, state="stopped", why=["the server is stopped and stays stopped"])
    record["method"] = _method(instance, desired["allocator"].get("delivery", "auto"))
    choice = _choose(instance, observed, desired["allocator"])
    record.update(library=choice.library, package=choice.package, predicted=choice.package is not None)
    record["allocator"] = (choice.library and classify(choice.library)) or desired["allocator"]["name"]
    _check_second_allocator(instance, choice.library)
    record["level"], record["reason"] = judge(_facts(instance), choice.library)
    record.update(_difference(instance, record))
    return record


def _method(instance: Mapping[str, Any], delivery: str) -> str:
    kind = instance["launcher"]["kind"]
    method = METHODS.get(kind)
    if method is None:
        raise Refusal(
            "failed", "launcher_mismatch", f"{instance['name']} (launcher {kind}): {LAUNCHER_HELP[kind]}."
        )
    if delivery not in ("auto", method):
        raise Refusal(
            "failed",
            "launcher_mismatch",
            f"allocator_delivery is '{delivery}', but {instance['name']} is launched by {kind}, "
            f"which would not honour it. Use auto or {method}.",
        )
    return method


def _facts(instance: Mapping[str, Any]) -> Record:
    own = {key: instance[key] for key in ("exe", "secure_exec", "bits", "machine", "confinement")}
    return dict(instance["allocator"], **own)


def _choose(instance: Mapping[str, Any], observed: Mapping[str, Any], wanted: Mapping[str, Any]) -> Choice:
    name = wanted["name"]
    if name == "system":
        return Choice(None)
    if instance["allocator"]["linked"] and not name.startswith("/"):
        _check_linked(instance, name)
        return Choice(None)
    fitting, unfit = _candidates(instance, observed, name)
    if fitting:
        return Choice(_preloaded_as(instance, fitting[0]) or fitting[0]["path"])
    if unfit:
        raise Refusal("failed", *unfit[0])
    if name.startswith("/"):
        raise Refusal(
            "failed",
            "not_found",
            f"{name} does not exist on this host. Install the library there, or correct allocator_name.",
        )
    package = package_for(name, observed["host"]["distribution"])
    if package is None:
        raise Refusal("failed", "not_found", _no_package(name, observed))
    return Choice(package.library.format(machine=instance["machine"]), package.name)


def _no_package(name: str, observed: Mapping[str, Any]) -> str:
    system = observed["host"]["distribution"]
    return (
        f"no {name} library was found, and no package of {system['id']} {system['version']} is known to have it. "
        "Install one and set allocator_name to its absolute path."
    )


def _check_linked(instance: Mapping[str, Any], name: str) -> None:
    linked = instance["allocator"]["linked"]
    if name not in ("linked", instance["allocator"]["name"]):
        raise Refusal(
            "refused",
            "linked_allocator",
            f"{instance['exe']} is linked with {linked}; a preload of {name} on top would map two allocators. "
            "Set allocator_name: linked to accept what the binary has.",
        )


Unfit = Tuple[str, str]


def _candidates(
    instance: Mapping[str, Any], observed: Mapping[str, Any], name: str
) -> Tuple[List[Mapping[str, Any]], List[Unfit]]:
    """Return the libraries that fit the daemon, packaged ones first, and why the others do not."""
    fitting: List[Mapping[str, Any]] = []
    unfit: List[Unfit] = []
    for library in observed["libraries"]:
        if name not in (library["allocator"], library["path"], library["real_path"]):
            continue
        problem = _unfit(instance, library)
        if problem:
            unfit.append(problem)
        else:
            fitting.append(library)
    fitting.sort(key=lambda lib: (not _preloaded_as(instance, lib), not lib["package"], lib["path"]))
    return fitting, unfit


def _preloaded_as(instance: Mapping[str, Any], library: Mapping[str, Any]) -> Optional[str]:
    """Return the name under which the next start preloads a library: a link to the same file is no other library."""
    resolved = instance["allocator"].get("resolved") or {}
    for name in instance["allocator"]["configured"]:
        if library["path"] == name or library["real_path"] in (name, resolved.get(name)):
            return str(name)
    return None


def _unfit(instance: Mapping[str, Any], library: Mapping[str, Any]) -> Optional[Unfit]:
    path, daemon = library["path"], instance["exe"]
    if not library["usable"]:
        return library["reason"], library.get("message") or f"{path} cannot be used: {library['reason']}."
    if library["bits"] != instance["bits"]:
        return "elf_class", (
            f"{path} is a {library['bits']}-bit library, but {daemon} is a {instance['bits']}-bit program. "
            f"Install the {instance['bits']}-bit library."
        )
    if library["machine"] != instance["machine"]:
        return "elf_machine", (
            f"{path} is built for {library['machine']}, but {daemon} for {instance['machine']}. "
            f"Install the library for {instance['machine']}."
        )
    return None


def _check_second_allocator(instance: Mapping[str, Any], library: Optional[str]) -> None:
    """Refuse a preload that stands in a file of somebody else; a hand-edited mysqld_safe is adopted instead."""
    foreign = [path for path in _preloaded_allocators(instance) if path != library]
    if foreign and instance["launcher"]["kind"] == "systemd" and not instance["allocator"]["managed"]:
        raise Refusal(
            "failed",
            "second_allocator",
            f"{instance['name']} already preloads {', '.join(foreign)} from a file that is not ours. "
            "Remove that setting first; two allocators in one process are worse than either.",
        )


def _preloaded_allocators(instance: Mapping[str, Any]) -> List[str]:
    return [path for path in instance["allocator"]["configured"] if classify(path)]


def _difference(instance: Mapping[str, Any], record: Mapping[str, Any]) -> Record:
    """Compare files and process with ``record['library']``: ``action``, ``restart`` and ``why``."""
    allocator, library, why = instance["allocator"], record["library"], []
    if library:
        delivered = library in allocator["configured"]
    else:
        delivered = not allocator["managed"] and not _preloaded_allocators(instance)
    if not delivered:
        why.append(
            f"preload {library}" if library else f"remove the preload of {', '.join(allocator['configured'])}"
        )
    elif record["level"] != "effective":
        why.append(f"the running process is only {record['level']}" + _because(record["reason"]))
    return {
        "action": "none" if not why else "restart" if delivered else "deliver",
        "restart": bool(why),
        "why": why,
    }


def _because(reason: Optional[str]) -> str:
    return f" ({reason})" if reason else ""


def _check_topology(observed: Mapping[str, Any], desired: Mapping[str, Any], planned: List[Record]) -> None:
    """Refuse to restart what others depend on, unless the inventory consents; unknown means refuse."""
    for instance, intent in zip(observed["instances"], planned):
        if intent["restart"]:
            _check_role(instance, desired)


def restart_refusal(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> str:
    """Return why the running servers of this host must not be restarted; empty if they may.

    A server that an interrupted run left half-way may always be brought back.
    """
    if observed.get("unfinished"):
        return ""
    try:
        for instance in observed["instances"]:
            if instance["launcher"]["kind"] != "stopped":
                _check_role(instance, desired)
    except Refusal as refusal:
        return refusal.message
    return ""


def _check_role(instance: Mapping[str, Any], desired: Mapping[str, Any]) -> None:
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


def _benchmark(observed: Mapping[str, Any], desired: Mapping[str, Any], status: str) -> Record:
    """Whether to measure; benchmark writes on a replication member would replicate, so they need consent."""
    if desired.get("benchmark", "none") == "none" or status != "change":
        return {"measure": False, "reason": None}
    members = [
        f"{i['name']} ({i['topology']['role']})"
        for i in observed["instances"]
        if i["topology"]["role"] != "standalone" and i["launcher"]["kind"] != "stopped"
    ]
    if members and not desired.get("benchmark_replication_members"):
        reason = (
            f"not measured: {', '.join(members)} takes part in replication, and benchmark writes would spread"
        )
        return {"measure": False, "reason": reason}
    return {"measure": True, "reason": None}
