# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules ask of the host: activate a run, undo runs, open and close a run."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from . import detached
from .command import Completed
from .command import run as run_command
from .journal import Journal
from .lease import STATE_ROOT, JournalError, check, release, take
from .readiness import Limits
from .restart import RestartError, launchers
from .room import with_room
from .runlog import (
    HALF_WAY,
    OWED,
    SPECS,
    UNFINISHED,
    Run,
    abandoned,
    listed,
    load,
    program_running,
    pruned,
    recorded,
    undo_order,
)
from .servers import Instance
from .undo import Outcome, recover, refuse_running, restore, undo_runs

Record = Dict[str, Any]
RunCommand = Callable[..., Completed]
KEEP = 20


def check_launchers(instances: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return the names of the instances that would be restarted; ``JournalError`` if one cannot be."""
    try:
        return list(launchers([Instance.of(instance) for instance in instances]))
    except RestartError as error:
        raise JournalError(str(error)) from error


def activate(params: Mapping[str, Any], root: str = STATE_ROOT, run: RunCommand = run_command) -> Record:
    """Start the transaction of a run and wait for its result, or return the one that is recorded.

    ``params`` are those of ``mysqld_activate``. ``JournalError`` before anything is touched.
    """
    run_id = str(params["run_id"])
    known = load(run_id, root)
    if known and not program_running(run_id, root) and known.state not in UNFINISHED:
        return dict(_recorded_activation(known), changed=False)
    if known and known.state in HALF_WAY and not program_running(run_id, root):
        return _bring_back(known, params, root, run)
    if not program_running(run_id, root):
        check_launchers(params["instances"])
        Journal.open(run_id, root).begin()
        detached.start("activate", dict(_limits(params), **_spec(run_id, root, params)), run)
    result = detached.wait("activate", run_id, root, _patience(params))
    return dict(result, changed=any(one["downtime"] for one in result["instances"]))


def _bring_back(known: Run, params: Mapping[str, Any], root: str, run: RunCommand) -> Record:
    """Undo an activation whose program was killed, servers included, and tell it as its result."""
    with_room([known.directory], lambda: take(known.run_id, root))
    instances = _with_half_way([known], [])
    undone = _undo_detached(known.run_id, [known], dict(params, instances=instances), root, False, run)
    state = "restored" if undone["ok"] else "restore_failed"
    told = {"run_id": known.run_id, "state": state, "reason": "interrupted", "message": undone["msg"]}
    return dict(told, instances=undone["instances"], changed=undone["changed"])


def _recorded_activation(known: Run) -> Record:
    """Return the result of a run that has ended; its journal has it too, should the file be missing."""
    found = detached.result("activate", known.run_id, known.root) or known.notes.get("activation")
    if not isinstance(found, dict):
        raise JournalError(
            f"run {known.run_id} has ended ({known.state}) without a restart. Start another, with a new run_id."
        )
    return found


def _spec(run_id: str, root: str, params: Mapping[str, Any]) -> Record:
    return {
        "run_id": run_id,
        "root": root,
        "instances": list(params["instances"]),
        "defaults_file": params.get("defaults_file"),
        "expect": params.get("expect") or "effective",
    }


def _limits(params: Mapping[str, Any]) -> Record:
    return {key: params[key] for key in ("timeout", "recovery", "settle") if params.get(key) is not None}


def _patience(params: Mapping[str, Any]) -> float:
    """Return how long a transaction can take at the very most: each server forth and back."""
    limits = Limits(float(params.get("timeout") or 120), float(params.get("recovery") or 900))
    once = limits.start + limits.recovery + limits.stop + float(params.get("settle") or 0)
    return 2 * once * max(len(params["instances"]), 1) + 60


def undo(
    run_id: Optional[str],
    params: Mapping[str, Any],
    root: str = STATE_ROOT,
    check_only: bool = False,
    run: RunCommand = run_command,
) -> Record:
    """Undo a run through the later ones (None: the latest). With instances, restart and verify them as well."""
    if run_id is None:  # a run that is at work may only be undone by its name
        check("", root)
    order = undo_order(root, run_id)
    instances = _with_half_way(order, params.get("instances") or [])
    required = any(recorded(one.run_id, SPECS["activate"], root) for one in order)
    if run_id and not order and not check_only and not program_running(run_id, root):
        release(run_id, root)
    if not order:
        known = [one["run_id"] for one in listed(root)]
        outcome = Outcome(message=_nothing(run_id, known))
        nothing = dict(_facts(outcome), restart_required=False, instances=[])
        return dict(nothing, known=run_id in (None, *known))
    if check_only or not instances:
        outcome = restore(run_id, root, run, check_only)
        return dict(_facts(outcome), restart_required=required and outcome.changed, instances=[])
    check_launchers(instances)
    holder = order[-1].run_id
    refuse_running(order)
    with_room([run.directory for run in order], lambda: take(holder, root))
    return _undo_detached(holder, order, dict(params, instances=instances), root, keep_lease=False, run=run)


def _nothing(run_id: Optional[str], known: Sequence[str]) -> str:
    """Say why there is nothing to undo, and which runs there are."""
    if not known:
        return "nothing to undo: no run has changed this host"
    if run_id in known or run_id is None:
        return f"nothing to undo: {run_id or 'every run'} is undone already, or changed nothing"
    return f"nothing to undo: this host knows no run {run_id}, only {', '.join(known)}"


def _with_half_way(order: Sequence[Run], given: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Return the given instances and those that an activation left behind without an end, or down.

    One that is given as stopped is the recorded one, if that ran before the activation: it has to run again.
    """
    instances = {instance["name"]: instance for instance in given}
    for one in order:
        spec = recorded(one.run_id, SPECS["activate"], one.root) if one.state in OWED else None
        for instance in spec["instances"] if spec else ():
            known = instances.get(instance["name"])
            if known is None or Instance.of(known).stopped:
                instances[instance["name"]] = instance
    return list(instances.values())


def _undo_detached(
    holder: str, order: Sequence[Run], params: Mapping[str, Any], root: str, keep_lease: bool, run: RunCommand
) -> Record:
    spec = _spec(holder, root, params)
    spec.update(_limits(params), undo=[one.run_id for one in order], keep_lease=keep_lease)
    detached.start("undo", spec, run)
    result = detached.wait("undo", holder, root, _patience(params))
    return {
        "known": True,
        "ok": result["state"] == "restored",
        "msg": result["message"],
        "changed": result["changed"],
        "run_ids": spec["undo"],
        "files": result["files"],
        "instances": result["instances"],
        "restart_required": False,
        "diff": [],
    }


def _facts(outcome: Outcome) -> Record:
    return {
        "known": True,
        "ok": outcome.ok,
        "msg": outcome.message,
        "changed": outcome.changed,
        "run_ids": outcome.run_ids,
        "files": outcome.files,
        "diff": outcome.diff,
    }


def open_run(
    run_id: str,
    params: Mapping[str, Any],
    root: str = STATE_ROOT,
    holder: Optional[str] = None,
    check_only: bool = False,
    run: RunCommand = run_command,
) -> Record:
    """Take the lease; put back first what a killed run left, servers included. Return what was recovered."""
    check(run_id, root)
    left = abandoned(root, own=run_id)
    if check_only:
        return dict(_facts(undo_runs(left, run, check=True)), instances=[], restart_required=False)
    take(run_id, root, holder=holder)
    try:
        recovered = _recover(run_id, left, params, root, run)
        if recovered["ok"]:
            Journal.open(run_id, root, holder)
            return recovered
    except JournalError:
        release(run_id, root)
        raise
    release(run_id, root)
    return recovered


def _recover(
    run_id: str, left: Sequence[Run], params: Mapping[str, Any], root: str, run: RunCommand
) -> Record:
    specs = [recorded(one.run_id, SPECS["activate"], root) for one in left]
    instances = {one["name"]: one for spec in specs if spec for one in spec["instances"]}
    if not instances:
        outcome = recover(root, run_id, run)
        return dict(_facts(outcome), instances=[], restart_required=False)
    refuse_running(left)
    Journal(run_id, root, "").begin()
    return _undo_detached(
        run_id, left, dict(params, instances=list(instances.values())), root, keep_lease=True, run=run
    )


def close_run(run_id: str, root: str = STATE_ROOT, keep: int = KEEP) -> Record:
    """Give the lease back; a run that is still open is committed as it stands. Old runs are pruned."""
    known = load(run_id, root)
    if known and program_running(run_id, root):
        raise JournalError(
            f"the transaction of run {run_id} is still at work on this host. Wait for its end."
        )
    if known and known.state == "open":
        state = "committed" if known.undoable else "closed"
        message = "closed without a restart" if known.undoable else "nothing was changed"
        Journal.open(run_id, root).close(state, message)
    release(run_id, root)
    gone = pruned(root, keep)
    return {"ok": True, "changed": False, "msg": f"run {run_id} is closed", "pruned": gone}
