# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather what a run left in the hosts' variables into one record per host, for the report."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.fleet.mysqltune.plugins.module_utils.host_memory import lines

Record = Mapping[str, Any]

DOCUMENTATION = r"""
name: tuning_hosts
short_description: One report record per host
version_added: 0.1.0
author: fleet.mysqltune contributors
description:
  - Turns what C(tune.yml) registered on each host (observation, activation, measurements, failure) into the records that
    M(fleet.mysqltune.tuning_report) takes.
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts.
    type: dict
    required: true
  check_mode:
    description: Whether the run only predicted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Report
  fleet.mysqltune.tuning_report:
    run_id: "{{ tuning_waves.run_id }}"
    hosts: "{{ ansible_play_hosts_all | fleet.mysqltune.tuning_hosts(hostvars, ansible_check_mode) }}"
"""

RETURN = r"""
_value:
  description: One dictionary per host - host, status, message, notes, instances and benchmarks.
  type: list
  elements: dict
"""

LOST = "the connection was lost on the way. What had begun, the host finishes or undoes by itself, and the next run tells"
NOT_STARTED = "not_started"
STATUS = {"nothing": "unchanged", "stopped": "stopped", "refused": "refused", "failed": "failed"}


def tuning_hosts(hosts: list[str], hostvars: Record, check_mode: bool = False) -> list[dict[str, Any]]:
    """Return one record per host, in the order given."""
    return [_record(host, hostvars[host], check_mode) for host in hosts]


def _record(host: str, variables: Record, check_mode: bool) -> dict[str, Any]:
    observation = variables.get("preflight_observation") or {}
    planned = observation.get("plan") or {}
    activation = {} if check_mode else variables.get("activate_result") or {}
    failure = variables.get("tuning_failure") or (
        observation.get("msg") if observation.get("failed") else None
    )
    status = _status(planned, variables, activation, failure, check_mode)
    lost = LOST if status == "unreachable" and planned else ""
    return {
        "host": host,
        "run_id": str(variables.get("tuning_run_id") or ""),
        "status": status,
        "message": str(failure or planned.get("message") or lost).removeprefix("not started: "),
        "notes": _notes(planned, {} if failure else variables.get("host_memory_result") or {}),
        "instances": _instances(observation, variables, activation, check_mode),
        "benchmarks": list(variables.get("sysbench_results") or []),
    }


def _status(planned: Record, variables: Record, activation: Record, failure: Any, check_mode: bool) -> str:
    if activation.get("state") in ("restored", "restore_failed"):
        return str(activation["state"])
    if planned.get("status") != "change":
        return "failed" if failure else STATUS[planned["status"]] if planned else "unreachable"
    if "preflight_lease" not in variables and not check_mode:
        return NOT_STARTED
    if failure:
        return "failed"
    return "planned" if check_mode else _ended(variables, activation)


def _ended(variables: Record, activation: Record) -> str:
    """Tell how a change ended that did not fail: a host that was lost on the way has not given its lease back."""
    if activation.get("state") == "committed":
        return "tuned"
    closed = variables.get("preflight_closed") or {"unreachable": True}
    if closed.get("unreachable"):
        return "unreachable"
    return "tuned" if (variables.get("host_memory_result") or {}).get("changed") else "unchanged"


def _notes(planned: Record, memory: Record) -> list[str]:
    unmeasured = (planned.get("benchmark") or {}).get("reason")
    return [
        str(note)
        for note in [*(planned.get("notes") or []), *lines(memory.get("changes") or []), unmeasured]
        if note
    ]


def _instances(
    observation: Record,
    variables: Record,
    activation: Record,
    check_mode: bool,
) -> list[dict[str, Any]]:
    observed = {i["name"]: i for i in (observation.get("observed") or {}).get("instances") or []}
    target = (variables.get("preflight_target") or observation).get("plan") or {}
    intents = {i["name"]: i for i in target.get("instances") or []}
    ended = {i["name"]: i for i in activation.get("instances") or []}
    files = _files(variables)
    return [
        dict(
            _instance(seen, intents.get(name, {}), ended.get(name, {}), check_mode), files=files.get(name, [])
        )
        for name, seen in observed.items()
    ]


def _files(variables: Record) -> dict[str, list[str]]:
    """Return the files that the delivery changed, by the name of the instance."""
    files: dict[str, list[str]] = {}
    for role_result in ("allocator_systemd", "allocator_mysqld_safe"):
        for result in (variables.get(role_result) or {}).get("results") or []:
            if result.get("changed"):
                files[result["item"]["name"]] = list(result["files"])
    return files


def _instance(seen: Record, intent: Record, ended: Record, check_mode: bool) -> dict[str, Any]:
    """Join what was seen before, what was intended, and how the restart ended (or would, in check mode)."""
    before, proved = seen["allocator"], ended or intent
    changed = ended.get("state") == "committed" or (check_mode and intent.get("restart"))
    return {
        "name": seen["name"],
        "flavour": seen["flavour"],
        "version": seen["version"],
        "launcher": seen["launcher"]["kind"],
        "method": intent.get("method"),
        "library": intent.get("library"),
        "allocator_before": before["name"],
        "allocator_after": intent["allocator"] if changed else before["name"],
        "level": proved.get("level") or before["level"],
        "reason": proved.get("reason"),
        "message": ended.get("message", ""),
        "downtime": ended.get("downtime"),
        "restarted": bool(ended.get("new_pid")),
        "why": list(intent.get("why") or []),
    }


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"tuning_hosts": tuning_hosts}
