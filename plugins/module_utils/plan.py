# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen on one host: the difference between what was observed and what is desired.

Pure: dictionaries in, dictionaries out. Everything else in the toolkit gates on the result.

``observed`` is what ``mysqld_info`` returns. ``desired`` has the keys ``allocator`` (a dictionary with
``name``, ``delivery``, ``search_path``, ``environment`` and ``source``, None or the archive to build from),
``include_primaries``, ``include_cluster_members``,
``benchmark`` (``none`` or ``before_after``), ``benchmark_replication_members``, ``run_id`` and ``host_memory``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from .allocators import classify
from .choice import check_carried, check_second_allocator, choose, environment, preloaded_allocators
from .evidence import judge
from .host_memory import HostMemoryError, asked, changes, lines, notes
from .refusals import (
    BEFORE_RECOVERY,
    METHODS,
    Refusal,
    at_work,
    check_host,
    check_name,
    check_role,
    held,
    restart_refusal,
)
from .servers import Instance
from .tunables import words

Record = Dict[str, Any]

LAUNCHER_HELP = {
    "bare": "nothing would start it again after a stop. Run it from a systemd unit or from mysqld_safe",
    "masked": "{unit} is masked, so nothing could start it again after a stop. Run systemctl unmask {unit}",
    "sysv": "its init script starts the daemon directly, and no systemd unit stands for the script. "
    "Run it from a systemd unit or from mysqld_safe",
    "smf": "SMF services cannot be tuned yet",
}


def plan(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Record:
    """Return ``status``, ``reason``, ``message``, ``notes``, ``packages``, ``build``, ``instances``, ``host_memory`` and more.

    ``status`` is ``nothing`` (all is as asked), ``change``, ``stopped`` (no server runs, nothing is done),
    ``refused`` (the host's role forbids it) or ``failed`` (a wrong value or an unfit host).
    ``restart_refusal`` says why none of the running servers may be restarted, whether one has to be or not.
    """
    result = dict(
        _nothing(), notes=_notes(observed, desired), restart_refusal=restart_refusal(observed, desired)
    )
    try:
        check_name(desired["allocator"]["name"], observed["host"]["system"])
        check_host(observed, desired)
        result["instances"] = _companions(
            observed["instances"], [_plan_instance(i, observed, desired) for i in observed["instances"]]
        )
        for instance, intent in zip(observed["instances"], result["instances"]):
            if intent["restart"]:
                check_role(instance, desired)
        memory, told = _memory(observed, desired)
        status = _status(observed, result["instances"], memory)
        lease = held(observed, desired)
        if lease and status == "change":
            raise at_work(lease)
    except Refusal as refusal:
        if observed.get("unfinished") and refusal.reason not in BEFORE_RECOVERY:
            return dict(result, status="change")
        return dict(result, status=refusal.status, reason=refusal.reason, message=refusal.message)
    result["packages"] = sorted({i["package"] for i in result["instances"] if i["package"]})
    result["build"] = _build(result["instances"], desired["allocator"])
    result["host_memory"] = memory
    result["notes"] += told
    result["status"] = status
    result["benchmark"] = _benchmark(observed, desired, result["status"])
    return result


def _build(planned: List[Record], allocator: Mapping[str, Any]) -> List[Record]:
    """Return what has to be built on this host: nothing, or one record with all that the build has to know."""
    if not any(intent["build"] for intent in planned):
        return []
    return [{"allocator": allocator["name"], **allocator["source"]}]


def unobserved(message: str) -> Record:
    """Return the plan of a host that is not even asked, because its variables are wrong."""
    return dict(_nothing(), status="failed", reason="bad_value", message=message, restart_refusal=message)


def _nothing() -> Record:
    return {
        "status": "nothing",
        "reason": None,
        "message": "",
        "notes": [],
        "packages": [],
        "build": [],
        "instances": [],
        "host_memory": [],
        "benchmark": {"measure": False, "reason": None},
        "restart_refusal": "",
    }


def summary(planned: Mapping[str, Any]) -> List[str]:
    """Return one line per instance, or the one line that says why the host was not planned."""
    if planned["message"]:
        return [f"{planned['status']}: {planned['message']}"]
    return [*(_line(intent) for intent in planned["instances"]), *lines(planned["host_memory"])]


def _line(intent: Mapping[str, Any]) -> str:
    if intent["state"] == "stopped":
        return f"{intent['name']}: stopped"
    library = intent["library"] or "no preload"
    why = f": {'; '.join(intent['why'])}" if intent["why"] else ""
    return f"{intent['name']}: {intent['level']}{_because(intent['reason'])}, {library}{why}{_runs(intent)}"


def _runs(intent: Mapping[str, Any]) -> str:
    return f"; it runs on {intent['runs']}" if intent["why"] else ""


def _memory(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Tuple[List[Record], List[str]]:
    """Return what has to change in the host's memory settings, and what to know about them."""
    seen = observed["host"].get("memory_settings")
    if not seen or all(i["launcher"]["kind"] == "stopped" for i in observed["instances"]):
        return [], []
    try:
        wanted = asked(desired.get("host_memory") or {})
        return changes(seen, wanted), notes(seen, wanted)
    except HostMemoryError as error:
        raise Refusal("failed", error.reason, str(error)) from error


def _status(observed: Mapping[str, Any], planned: List[Record], memory: List[Record]) -> str:
    if observed.get("unfinished") or memory or any(i["action"] != "none" for i in planned):
        return "change"
    return "stopped" if all(i["state"] == "stopped" for i in planned) else "nothing"


def _notes(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> List[str]:
    notes = [
        f"run {run['run_id']} was interrupted ({run['state']}): it is undone first"
        for run in observed.get("unfinished") or []
        if run["run_id"] != desired.get("run_id")
    ]
    notes += [
        f"allocator_search_path has {path}, which does not exist on this host"
        for path in desired["allocator"].get("search_path") or []
        if any(
            lib["path"] == path and lib["reason"] == "not_found" for lib in observed.get("libraries") or []
        )
    ]
    last = observed.get("last_run")
    if last and last["state"] in ("restored", "restore_failed") and last["run_id"] != desired.get("run_id"):
        notes.append(f"the last run {last['run_id']} ended as {last['state']}: {last['message']}")
    return notes


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
        "environment": {},
        "package": None,
        "build": False,
        "predicted": False,
        "restart": False,
        "level": instance["allocator"]["level"],
        "reason": instance["allocator"]["reason"],
        "why": [],
    }
    if instance["launcher"]["kind"] == "stopped":
        return dict(record, state="stopped", why=["the server is stopped and stays stopped"])
    record["method"] = _method(instance, desired["allocator"].get("delivery", "auto"))
    choice = choose(instance, observed, desired["allocator"])
    record.update(library=choice.library, package=choice.package, build=choice.build)
    record["predicted"] = choice.build or choice.package is not None
    record["environment"] = environment(desired["allocator"])
    check_carried(record["method"], record["environment"])
    record["allocator"] = (choice.library and classify(choice.library)) or desired["allocator"]["name"]
    check_second_allocator(instance, choice.library)
    record["level"], record["reason"] = judge(_facts(instance), choice.library)
    record.update(_difference(instance, record, desired["allocator"].get("delivery", "auto")))
    return record


def _companions(instances: List[Record], intents: List[Record]) -> List[Record]:
    """Restart what one launcher starts together (``mysqld_multi``) together; refuse to start what is stopped."""
    starters = [Instance.of(instance).starter for instance in instances]
    first = {
        starter: intent["name"]
        for starter, intent in reversed(list(zip(starters, intents)))
        if starter and intent["restart"]
    }
    return [
        _companion(intent, starter, first.get(starter or "")) for starter, intent in zip(starters, intents)
    ]


def _companion(intent: Record, starter: Optional[str], cause: Optional[str]) -> Record:
    if cause is None or intent["restart"]:
        return intent
    if intent["state"] == "stopped":
        raise Refusal(
            "failed",
            "launcher_mismatch",
            f"{starter} starts {cause} and {intent['name']}, which is stopped: a restart would start it as well. "
            "Start it first, or take it out of what that launcher starts.",
        )
    why = [f"{starter} restarts it together with {cause}"]
    return dict(intent, action="restart", restart=True, why=why)


def _method(instance: Mapping[str, Any], delivery: str) -> str:
    kind = instance["launcher"]["kind"]
    method = METHODS.get(kind)
    if method is None or (kind == "sysv" and not instance["launcher"]["unit"]):
        raise Refusal(
            "failed",
            "launcher_mismatch",
            f"{instance['name']} (launcher {kind}): {LAUNCHER_HELP[kind].format(unit=instance['launcher']['unit'])}.",
        )
    if delivery == "malloc_lib" and method == "mysqld_safe":
        return delivery
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


def _difference(instance: Mapping[str, Any], record: Mapping[str, Any], delivery: str) -> Record:
    """Compare files and process with what the record wants: ``action``, ``restart``, ``why``; level and reason."""
    allocator, level, reason, why = instance["allocator"], record["level"], record["reason"], []
    delivered = _delivered(instance, record, delivery)
    lacking = [
        name
        for name, value in record["environment"].items()
        if (allocator.get("variables") or {}).get(name) != value
    ]
    if not delivered:
        why.append(_delivery(instance, record))
    elif level != "effective":
        why.append(f"the running process is only {level}" + _because(reason))
    elif lacking:
        level, reason = "delivered", "stale_process"
        why.append(f"the running process has another {', '.join(lacking)}")
    return {
        "action": "none" if not why else "restart" if delivered else "deliver",
        "restart": bool(why),
        "level": level,
        "reason": reason,
        "why": why,
    }


def _delivered(instance: Mapping[str, Any], record: Mapping[str, Any], delivery: str) -> bool:
    """Tell whether the launcher's files have what the record wants, and nothing of ours beyond it."""
    allocator, wanted = instance["allocator"], record["environment"]
    if (allocator.get("own_variables") or {}) != wanted:
        return False
    if record["library"]:
        return record["library"] in allocator["configured"] and _as_insisted(allocator, delivery)
    return not preloaded_allocators(instance) and (bool(wanted) or not allocator["managed"])


def _as_insisted(allocator: Mapping[str, Any], delivery: str) -> bool:
    """Tell whether ours is delivered by the method insisted on; a preload that is not ours is left as it is."""
    by_option = any(one["ours"] for one in allocator.get("malloc_libs") or [])
    if delivery == "malloc_lib":
        return by_option or not allocator["managed"]
    return not (delivery == "mysqld_safe" and by_option)


def _delivery(instance: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return in words what the launcher's files are to say."""
    parts = [f"preload {record['library']}"] if record["library"] else []
    gone = [] if record["library"] else instance["allocator"]["configured"]
    parts += [f"remove the preload of {', '.join(gone)}"] if gone else []
    parts += [f"set {words(record['environment'])}"] if record["environment"] else []
    return " and ".join(parts) or "remove what is left of an earlier delivery"


def _because(reason: Optional[str]) -> str:
    return f" ({reason})" if reason else ""


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
