# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo what a run did to the files of this host, from its journal alone.

A file is put back only if it is still what the run left there; else our part is taken out of it, if its kind
can do that, or it is left alone and the outcome says what differs. Killed half way, it is simply done again.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .command import Completed
from .command import run as run_command
from .decision import Step, decide, decide_value
from .durable import (
    FileState,
    discard,
    make_directory,
    missing_directories,
    read_state,
    read_value,
    remove,
    replace,
    sync_directory,
    write_value,
)
from .lease import STATE_ROOT, JournalError, current, release, take
from .room import with_room
from .runlog import (
    HALF_WAY,
    Change,
    Image,
    Run,
    Setting,
    abandoned,
    append,
    journal_path,
    program_running,
    undo_order,
)

RunCommand = Callable[..., Completed]


@dataclass
class Outcome:
    """What was undone, file by file. ``ok`` is False if a file was left alone or a command failed."""

    run_ids: List[str] = field(default_factory=list)
    changed: bool = False
    ok: bool = True
    message: str = "nothing to undo"
    files: List[Dict[str, str]] = field(default_factory=list)
    refused: List[str] = field(default_factory=list)
    diff: List[Dict[str, str]] = field(default_factory=list)
    foreseen: Dict[str, Union[FileState, Step, None]] = field(default_factory=dict, repr=False)
    """In check mode: the files as they would be by now."""


def restore(
    run_id: Optional[str],
    root: str = STATE_ROOT,
    run: RunCommand = run_command,
    check: bool = False,
) -> Outcome:
    """Undo ``run_id`` through every later run, or the latest run if it is None; ``check`` only tells.

    The lease is taken for it and given back. ``LeaseHeld`` or ``JournalError`` before anything is touched.
    """
    order = undo_order(root, run_id)
    if not order or check:
        return undo_runs(order, run, check)
    holder = order[-1].run_id
    with_room([run.directory for run in order], lambda: take(holder, root))
    try:
        return undo_runs(order, run)
    finally:
        release(holder, root)


def recover(root: str = STATE_ROOT, own: Optional[str] = None, run: RunCommand = run_command) -> Outcome:
    """Put back the files of every run that was killed, the latest first, under the lease of ``own``."""
    left = abandoned(root, own)
    if left and own:
        with_room([run.directory for run in left], lambda: take(own, root))
    return undo_runs(left, run)


def undo_runs(
    order: Sequence[Run],
    run: RunCommand = run_command,
    check: bool = False,
    final: bool = True,
    own_program: bool = False,
) -> Outcome:
    """Undo these runs, the latest first; the caller has the lease.

    ``final`` False leaves them in the state ``restoring``, for a caller that has to restart the servers too.
    A run whose detached program is at work is refused, but not by that program itself (``own_program``).
    """
    outcome = Outcome()
    if not own_program:
        refuse_running(order)
    for undone in order:
        _undo_run(undone, outcome, run, check, final)
        if not outcome.ok:
            break
    if order:
        outcome.message = _message(outcome, check)
    return outcome


def refuse_running(order: Sequence[Run]) -> None:
    """Raise ``JournalError`` if a detached program of these runs is at work."""
    alive = [run.run_id for run in order if program_running(run.run_id, run.root)]
    if alive:
        raise JournalError(
            f"the transaction of run {alive[0]} is still at work on this host and ends by itself, in a "
            "commit or in the old state. Wait for it, then ask again."
        )


def _undo_run(undone: Run, outcome: Outcome, run: RunCommand, check: bool, final: bool) -> None:
    outcome.run_ids.append(undone.run_id)
    if not check:
        _marked(undone, "restoring")  # a journal that cannot be written keeps no file from being put back
    steps = [
        (change.path, _undo_file(undone, change, outcome, check))
        for change in reversed(list(undone.changes.values()))
    ] + [
        (setting.path, _undo_setting(undone, setting, outcome, check)) for setting in undone.settings.values()
    ]
    refused = [f"{path} {step.words}" for path, step in steps if step.action == "refuse"]
    if not check:
        _remove_directories(undone, outcome)
        refused += _run_commands(undone, run)
    outcome.refused += refused
    outcome.ok = not outcome.refused
    if check:
        return
    if refused:
        _marked(undone, "restore_failed", "; ".join(refused), "differs")
    elif final:
        how = f"was interrupted ({undone.state})" if _interrupted(undone) else "was undone"
        outcome.refused += _marked(undone, "restored", f"{undone.run_id} {how}, its files are as before")
        outcome.ok = not outcome.refused


def _interrupted(undone: Run) -> bool:
    """Tell whether the run came to no end of its own: one that puts itself back holds the lease."""
    lease = current(undone.root)
    own = lease is not None and lease.run_id == undone.run_id
    return undone.state in HALF_WAY or (undone.state == "open" and not own)


def _marked(undone: Run, state: str, message: str = "", reason: str = "") -> List[str]:
    """Write the state of a run down; return why that was not possible, if it was not."""
    try:
        mark(undone, state, message, reason)
    except OSError as error:
        return [f"{journal_path(undone.run_id, undone.root)} cannot be written: {error.strerror}"]
    return []


def mark(undone: Run, state: str, message: str = "", reason: str = "") -> None:
    """Write the state of a run down."""
    append(undone, {"op": "state", "state": state, "message": message, "reason": reason})


def _undo_file(undone: Run, change: Change, outcome: Outcome, check: bool) -> Step:
    """Undo one file, or only tell how. What a run left on its way counts as its own only until it has committed."""
    if undone.state == "committed":
        change = dataclasses.replace(change, ours=change.ours[-1:])
    current = outcome.foreseen[change.path] if change.path in outcome.foreseen else _read(change.path)
    step = current if isinstance(current, Step) else decide(change, current, _blob(undone, change.before))
    if check:
        foreseen = current if step.action in ("none", "refuse") else step.state
        outcome.foreseen[change.path] = foreseen
    else:
        step = _apply(change, step)
    return _noted(undone, change.path, step, outcome)


def _undo_setting(undone: Run, setting: Setting, outcome: Outcome, check: bool) -> Step:
    """Set one value of the running kernel back, or only tell; one that somebody else set since is left alone."""
    try:
        current = read_value(setting.path)
        step = decide_value(setting, current)
        if step.action == "write" and not check:
            write_value(setting.path, setting.before)
    except OSError as error:
        step = Step("refuse", f"cannot be set back to {setting.before}: {error.strerror}")
    return _noted(undone, setting.path, step, outcome)


def _noted(undone: Run, path: str, step: Step, outcome: Outcome) -> Step:
    if step.action in ("write", "remove"):
        outcome.changed = True
        outcome.diff.append(_diff(path, step))
    outcome.files.append({"run_id": undone.run_id, "path": path, "action": step.words})
    return step


def _read(path: str) -> Union[FileState, Step, None]:
    """Return the file as it is, or the step that leaves it alone because it cannot be read."""
    try:
        return read_state(path)
    except OSError as error:
        return Step("refuse", f"cannot be read any more ({error.strerror}); it was left alone")


def _blob(undone: Run, before: Image) -> Optional[FileState]:
    """Return the state before the run from its blob; None if there was no file."""
    if before.sha256 is None:
        return None
    kept = read_state(os.path.join(undone.directory, "blobs", before.sha256))
    if kept is None or kept.sha256 != before.sha256:
        raise JournalError(
            f"the before-image {before.sha256} of run {undone.run_id} is missing or damaged under "
            f"{undone.directory}/blobs. Put the file back from a backup."
        )
    xattrs = {name: base64.b64decode(text) for name, text in before.xattrs}
    return FileState(kept.content, before.mode or 0, before.uid or 0, before.gid or 0, xattrs)


def _apply(change: Change, step: Step) -> Step:
    """Do the step; one that the system refuses becomes a refusal, so that the other files are still put back."""
    try:
        if os.path.lexists(
            change.temp
        ):  # where nothing is left to remove, a read-only file system is no obstacle
            discard(change.temp)
        if step.action == "remove":
            remove(change.path)
        elif step.action == "write" and step.state:
            for directory in missing_directories(os.path.dirname(change.path)):
                make_directory(directory, 0o755)
            replace(change.path, step.state, change.temp)
    except OSError as error:
        return Step(
            "refuse", f"cannot be put back: {error.strerror}. Make room or access there, then ask again"
        )
    return step


def _remove_directories(undone: Run, outcome: Outcome) -> None:
    for path in reversed(undone.directories):
        try:
            os.rmdir(path)
            sync_directory(os.path.dirname(path))
        except OSError:
            continue
        outcome.changed = True
        outcome.files.append({"run_id": undone.run_id, "path": path, "action": "removed the empty directory"})


def _run_commands(undone: Run, run: RunCommand) -> List[str]:
    failed = []
    for argv in undone.commands:
        done = run(argv, timeout=90.0)
        if done.rc:
            failed.append(f"{' '.join(argv)} failed: {(done.err or done.out).strip()[-300:]}")
    return failed


def _diff(path: str, step: Step) -> Dict[str, str]:
    """Say what changes without showing contents: option files hold passwords."""
    return {
        "before_header": path,
        "after_header": path,
        "before": "as this run left it\n",
        "after": f"{step.words}\n",
    }


def _message(outcome: Outcome, check: bool) -> str:
    names = ", ".join(outcome.run_ids)
    if not outcome.ok:
        return f"{names} could not be undone as a whole: {'; '.join(outcome.refused)}"
    return f"{names} would be undone" if check else f"{names} undone"


def facts(outcome: Outcome) -> Mapping[str, Any]:
    """Return the outcome as a module returns it."""
    return {
        "run_ids": outcome.run_ids,
        "changed": outcome.changed,
        "files": outcome.files,
        "msg": outcome.message,
    }
