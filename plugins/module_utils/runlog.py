# SPDX-License-Identifier: GPL-3.0-or-later
"""What the runs of this host wrote down, read back: ``<root>/runs/<run_id>/journal.jsonl`` and its blobs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .durable import append_record, read_json, read_records
from .lease import STATE_ROOT, JournalError, current, since_boot
from .room import with_room

Record = Dict[str, Any]

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
UNFINISHED = ("open", "activating", "restoring")
"""States of a run that somebody has to finish: it changed files and neither committed nor restored."""

HALF_WAY = ("activating", "restoring")
"""States in which servers may be down or half restarted."""

OWED = (*HALF_WAY, "restore_failed")
"""States in which the servers of the run's ``activate.json`` are owed a restart on the old state."""

SPECS = {"activate": "activate.json", "undo": "undo.json"}
RESULTS = {"activate": "result.json", "undo": "undo-result.json"}
"""What a detached program reads and writes in the run's directory."""

UNDOABLE = (*UNFINISHED, "committed", "restore_failed")


class Image(NamedTuple):
    """One state of one file: ``sha256`` None means that there is no file."""

    sha256: Optional[str]
    mode: Optional[int] = None
    uid: Optional[int] = None
    gid: Optional[int] = None
    xattrs: Tuple[Tuple[str, str], ...] = ()


@dataclass
class Change:
    """What a run did to one file: the state before its first change, and each state that it left."""

    path: str
    temp: str
    before: Image
    ours: List[Image] = field(default_factory=list)
    kind: Optional[str] = None


@dataclass
class Setting:
    """What a run did to one value of the running kernel: the value before, and each that it set."""

    path: str
    before: str
    ours: List[str] = field(default_factory=list)


@dataclass
class Run:
    """One run, as its journal tells it. ``changes`` and ``directories`` stand in the order they were made."""

    run_id: str
    root: str
    sequence: int = 0
    started: float = 0.0
    boot: str = ""
    since_boot: float = 0.0
    holder: str = ""
    state: str = "open"
    message: str = ""
    reason: str = ""
    finished: Optional[float] = None
    changes: Dict[str, Change] = field(default_factory=dict)
    settings: Dict[str, Setting] = field(default_factory=dict)
    directories: List[str] = field(default_factory=list)
    commands: List[List[str]] = field(default_factory=list)
    notes: Record = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return run_directory(self.run_id, self.root)

    @property
    def undoable(self) -> bool:
        touched = self.changes or self.settings or self.directories
        return self.state in UNDOABLE and bool(touched or self.state in OWED)

    def as_dict(self) -> Record:
        """Return the run as ``tuning_journal`` lists it."""
        return {
            "run_id": self.run_id,
            "state": self.state,
            "message": self.message,
            "reason": self.reason,
            "started": self.started,
            "finished": self.finished,
            "files": sorted([*self.changes, *self.settings]),
            "undoable": self.undoable,
        }


def run_directory(run_id: str, root: str = STATE_ROOT) -> str:
    """Return the run's directory; ``JournalError`` for an id that is no plain name."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise JournalError(
            f"run_id {run_id!r} is not a name: up to 100 letters, digits, '.', '_' and '-', beginning with a "
            "letter or digit."
        )
    return os.path.join(root, "runs", run_id)


def journal_path(run_id: str, root: str = STATE_ROOT) -> str:
    """Return the file with the run's records."""
    return os.path.join(run_directory(run_id, root), "journal.jsonl")


def load(run_id: str, root: str = STATE_ROOT) -> Optional[Run]:
    """Return the run, or None if nothing was ever written for it."""
    records = read_records(journal_path(run_id, root))
    if not records:
        return None
    run = Run(run_id, root)
    for record in records:
        _FOLD.get(str(record.get("op")), _ignore)(run, record)
    return run


def _begin(run: Run, record: Mapping[str, Any]) -> None:
    if run.sequence:
        return
    run.sequence, run.started = record["sequence"], record["time"]
    run.boot, run.since_boot, run.holder = record["boot"], record["since_boot"], record["holder"]


def _before(run: Run, record: Mapping[str, Any]) -> None:
    path = record["path"]
    first = Change(path, record["temp"], image(record["before"]), kind=record["kind"])
    run.changes.setdefault(path, first).ours.append(image(record["planned"]))


def _cancelled(run: Run, record: Mapping[str, Any]) -> None:
    """Forget a change that was called off before it touched the file."""
    change = run.changes[record["path"]]
    change.ours.pop()
    if not change.ours:
        del run.changes[record["path"]]


def _value(run: Run, record: Mapping[str, Any]) -> None:
    path = record["path"]
    run.settings.setdefault(path, Setting(path, record["before"])).ours.append(record["planned"])


def _directory(run: Run, record: Mapping[str, Any]) -> None:
    run.directories.append(record["path"])


def _command(run: Run, record: Mapping[str, Any]) -> None:
    if record["argv"] not in run.commands:
        run.commands.append(record["argv"])


def _note(run: Run, record: Mapping[str, Any]) -> None:
    run.notes.update(record["facts"])


def _state(run: Run, record: Mapping[str, Any]) -> None:
    run.state, run.message, run.reason = record["state"], record["message"], record["reason"]
    run.finished = None if run.state in UNFINISHED else record["time"]


def _ignore(run: Run, record: Mapping[str, Any]) -> None:
    """Leave out what a later version may have written."""


_FOLD = {
    "begin": _begin,
    "before": _before,
    "cancelled": _cancelled,
    "value": _value,
    "directory": _directory,
    "on_restore": _command,
    "note": _note,
    "state": _state,
}


def image(value: Mapping[str, Any]) -> Image:
    """Build an image from its record."""
    xattrs = tuple((str(name), str(text)) for name, text in value.get("xattrs") or ())
    return Image(value["sha256"], value.get("mode"), value.get("uid"), value.get("gid"), xattrs)


def runs(root: str = STATE_ROOT) -> List[Run]:
    """Return every run of this host, the latest first: by sequence, whatever the clock said."""
    try:
        names = os.listdir(os.path.join(root, "runs"))
    except OSError:
        return []
    found = [load(name, root) for name in sorted(names) if RUN_ID.fullmatch(name)]
    return sorted((run for run in found if run), key=lambda run: run.sequence, reverse=True)


def listed(root: str = STATE_ROOT) -> List[Record]:
    """Return every run of this host as a dictionary, the latest first."""
    return [run.as_dict() for run in runs(root)]


def abandoned(root: str = STATE_ROOT, own: Optional[str] = None) -> List[Run]:
    """Return the unfinished runs that nobody works on any more: not ``own``, and without a live lease."""
    lease = current(root)
    kept = {own, lease.run_id if lease and lease.live else None}
    return [run for run in runs(root) if run.state in UNFINISHED and run.run_id not in kept]


def summary(root: str = STATE_ROOT) -> Record:
    """Return ``lease``, ``unfinished`` and ``last_run`` as ``mysqld_info`` shows them; read only."""
    lease = current(root)
    done = [run for run in runs(root) if run.state in ("committed", "restored", "restore_failed")]
    keys = ("run_id", "state", "message", "reason", "finished")
    return {
        "lease": lease.as_dict() if lease else None,
        "unfinished": [
            {"run_id": run.run_id, "state": run.state, "started": run.started} for run in abandoned(root)
        ],
        "last_run": {key: getattr(done[0], key) for key in keys} if done else None,
    }


def left_files(root: str = STATE_ROOT) -> List[Record]:
    """Return what the committed runs left: ``path``, ``sha256`` (None: no file), ``kind`` and the last ``run_id``."""
    found: Dict[str, Record] = {}
    for run in runs(root):
        for path, change in run.changes.items() if run.state == "committed" else ():
            left = {"path": path, "sha256": change.ours[-1].sha256, "kind": change.kind, "run_id": run.run_id}
            found.setdefault(path, left)
    return sorted(found.values(), key=lambda left: str(left["path"]))


def pruned(root: str = STATE_ROOT, keep: int = 20, check: bool = False) -> List[str]:
    """Delete the finished runs beyond the latest ``keep``, which ends their undo; return their ids.

    A run whose restore failed is never deleted: its before-images may be the only ones.
    """
    lease = current(root)
    finished = [run for run in runs(root) if run.state not in (*UNFINISHED, "restore_failed")]
    old = [run for run in finished[max(keep, 0) :] if lease is None or run.run_id != lease.run_id]
    for run in reversed(old if not check else []):
        shutil.rmtree(run.directory)
    return [run.run_id for run in old]


def program_lock(run_id: str, root: str = STATE_ROOT) -> str:
    """Return the file that the run's detached program keeps locked while it lives."""
    return os.path.join(run_directory(run_id, root), "program.lock")


def program_running(run_id: str, root: str = STATE_ROOT) -> bool:
    """Tell whether the run's detached program is alive: it holds a lock that dies with it."""
    try:
        descriptor = os.open(program_lock(run_id, root), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def begin_record(run_id: str, root: str, boot: str, holder: str) -> Record:
    """Return the first record of a run; call it under the lease, which makes ``sequence`` unique."""
    sequence = max((run.sequence for run in runs(root)), default=0) + 1
    return {
        "op": "begin",
        "run_id": run_id,
        "sequence": sequence,
        "time": time.time(),
        "boot": boot,
        "since_boot": since_boot(),
        "holder": holder,
    }


def append(run: Run, record: Record) -> None:
    """Add a record with the time to a run's journal, whatever the disk has left."""
    path = journal_path(run.run_id, run.root)
    with_room([run.directory], lambda: append_record(path, dict(record, time=time.time())))


def recorded(run_id: str, name: str, root: str = STATE_ROOT) -> Any:
    """Return a JSON document of the run's directory, None if it is absent."""
    return read_json(os.path.join(run_directory(run_id, root), name))


def undo_order(root: str, run_id: Optional[str]) -> Sequence[Run]:
    """Return the runs to undo, the latest first: the latest, or all of them down to ``run_id``."""
    known = runs(root)
    if run_id is None:
        return [run for run in known if run.undoable][:1]
    run_directory(run_id, root)
    if run_id not in [run.run_id for run in known]:
        return []
    position = [run.run_id for run in known].index(run_id)
    if not known[position].undoable:
        return []
    return [run for run in known[: position + 1] if run.undoable]
