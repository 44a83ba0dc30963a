# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a server is not, or no longer, as asked: one record per server of a host. Pure.

Built on the plan: what ``tune.yml`` would do nothing about is no drift.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from .managed import concerns

Record = Dict[str, Any]

NAMES = {
    "deleted": "library deleted under the process",
    "interrupted": "run interrupted",
    "launcher_mismatch": "launcher mismatch",
    "memory": "memory setting changed",
    "not_tuned": "not tuned",
    "option_file_changed": "option file changed",
    "overridden": "overridden",
    "restore_failed": "restore failed",
    "restored": "put back by the last run",
    "reverted_option_file": "reverted option file",
    "reverted_script": "reverted script",
    "script_changed": "script changed",
    "second_allocator": "second allocator",
    "stale_process": "stale process: restart pending",
    "unit_changed": "unit changed",
    "unknown": "could not be observed",
}
"""The reasons as people read them; a reason code of the evidence that is not here is shown as it is."""


def drift(observed: Mapping[str, Any], planned: Mapping[str, Any]) -> List[Record]:
    """Return a record per instance: ``instance``, ``launcher``, ``allocator``, ``level``, ``status`` and ``reasons``.

    ``status`` is ``effective`` (as asked), ``drift``, or ``stopped``. What concerns the host as a whole is a
    record whose ``instance`` is None. ``reasons`` are ``{code, message}``, the cause first.
    """
    intents = {intent["name"]: intent for intent in planned["instances"]}
    records = [
        _record(instance, intents.get(instance["name"]), observed, planned)
        for instance in observed["instances"]
    ]
    of_host = _host_reasons(observed, planned, any(record["status"] == "drift" for record in records))
    return records + ([_of_host(of_host)] if of_host else [])


def unknown(message: str) -> List[Record]:
    """Return the record of a host of which nothing is known."""
    return [dict(_of_host([_reason("unknown", message)]), status="unknown")]


def _of_host(reasons: List[Record]) -> Record:
    nothing = dict.fromkeys(("instance", "launcher", "allocator", "level"))
    return {**nothing, "status": "drift", "reasons": reasons}


def _record(
    instance: Mapping[str, Any],
    intent: Optional[Mapping[str, Any]],
    observed: Mapping[str, Any],
    planned: Mapping[str, Any],
) -> Record:
    record = {
        "instance": instance["name"],
        "launcher": instance["launcher"]["kind"],
        "allocator": instance["allocator"]["name"],
        "level": intent["level"] if intent else instance["allocator"]["level"],
        "reasons": [],
    }
    if record["launcher"] == "stopped":
        return dict(record, status="stopped", level=None)
    reasons = _reasons(instance, intent, observed) if intent else []
    if planned["message"] and (reasons or not intent):
        reasons.append(_reason(planned["reason"], planned["message"]))
    as_asked = not reasons and record["level"] == "effective"
    return dict(record, status="effective" if as_asked else "drift", reasons=reasons)


def _reasons(
    instance: Mapping[str, Any], intent: Mapping[str, Any], observed: Mapping[str, Any]
) -> List[Record]:
    """Return why an instance that the plan would change is not as asked; none for one that it would leave."""
    if not intent["why"]:
        return []
    found = [
        _reason(_changed(file), f"{file['path']} is {_state(file)} since run {file['run_id']}")
        for file in observed.get("managed_files") or []
        if file["state"] != "as_left" and concerns(file, instance["launcher"])
    ]
    why = "; ".join(intent["why"])
    others = instance["allocator"].get("overridden_by") or []
    if others:
        found.append(_reason("overridden", f"{', '.join(others)} beats our setting; {why}"))
    codes = [reason["code"] for reason in found]
    if intent["reason"] and intent["reason"] not in codes:
        found.append(_reason(intent["reason"], why))
    return found or [_reason("not_tuned", why)]


def _changed(file: Mapping[str, Any]) -> str:
    if file["block"] is None:
        return "unit_changed"
    what = "option_file" if file["kind"] == "option_file" else "script"
    return f"{what}_changed" if file["block"] else f"reverted_{what}"


def _state(file: Mapping[str, Any]) -> str:
    return "without our block" if file["block"] is False else str(file["state"])


def _host_reasons(observed: Mapping[str, Any], planned: Mapping[str, Any], drifted: bool) -> List[Record]:
    found = [
        _reason(
            "interrupted",
            f"run {run['run_id']} was interrupted ({run['state']}); tune.yml or rollback.yml ends it",
        )
        for run in observed.get("unfinished") or []
    ]
    last = observed.get("last_run")
    if last and (last["state"] == "restore_failed" or (last["state"] == "restored" and drifted)):
        first = f"{planned['message']} " if planned["reason"] == last["state"] else ""
        found.append(_reason(last["state"], f"{first}run {last['run_id']}: {last['message']}"))
    found += [
        _reason(
            "memory",
            f"{change['setting']} is {change['from']}, not {change['to']} in {change['file'] or 'the kernel'}",
        )
        for change in planned.get("host_memory") or []
    ]
    found += [_reason("launcher_mismatch", message) for message in _unused_scripts(observed)]
    if not observed["instances"] and planned["message"]:
        found.append(_reason(planned["reason"], planned["message"]))
    return found


def _unused_scripts(observed: Mapping[str, Any]) -> List[str]:
    """Return a sentence for each script with our block that started none of the running servers.

    Where a server is stopped, the script may be the one that will start it.
    """
    launchers = [instance["launcher"] for instance in observed["instances"]]
    if not launchers or any(launcher["kind"] == "stopped" for launcher in launchers):
        return []
    used = [launcher["script"] for launcher in launchers]
    return [
        f"{file['path']} has our block since run {file['run_id']}, and no running server was started by it"
        for file in observed.get("managed_files") or []
        if file["kind"] == "mysqld_safe" and file["block"] and file["path"] not in used
    ]


def _reason(code: Optional[str], message: str) -> Record:
    return {"code": code or "not_tuned", "name": NAMES.get(code or "not_tuned", code), "message": message}
