# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal: each file's state is on the disk before the file is changed, so that every run can be undone.

Order of a change: the before-image and a record of what will be there, both synced; a temporary file in the
same directory, validated; its rename, synced. A run killed in between leaves the old or the new file, and
``restore`` tells which by the hash.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import time
from typing import Any, Callable, Iterator, List, Optional

from .durable import (
    FileState,
    append_record,
    create,
    discard,
    make_directory,
    missing_directories,
    move,
    read_state,
    read_value,
    remove,
    sha256,
    write_value,
)
from .lease import (
    STATE_ROOT,
    JournalError,
    LeaseHeld,
    boot_id,
    ensure_root,
    release,
    take,
)
from .room import set_aside
from .runlog import (
    UNFINISHED,
    Record,
    abandoned,
    begin_record,
    journal_path,
    listed,
    load,
    pruned,
    run_directory,
    summary,
)
from .undo import Outcome, recover, restore

__all__ = [
    "STATE_ROOT",
    "Journal",
    "JournalError",
    "LeaseHeld",
    "Outcome",
    "ad_hoc_run_id",
    "journal_for",
    "listed",
    "pruned",
    "recover",
    "restore",
    "summary",
]

Validate = Callable[[str], Optional[str]]


class Journal:
    """The open journal of one run. Use ``open``; nothing is written down before the first change."""

    def __init__(self, run_id: str, root: str, holder: str) -> None:
        self.run_id = run_id
        self.root = root
        self._holder = holder
        self._directory = run_directory(run_id, root)
        self._path = journal_path(run_id, root)

    @classmethod
    def open(cls, run_id: str, root: str = STATE_ROOT, holder: Optional[str] = None) -> Journal:
        """Take or renew the lease; ``LeaseHeld`` if another run has it.

        ``JournalError`` if the run has ended, or if a run that was killed has to be put back first.
        """
        run_directory(run_id, root)
        with _explained("cannot take the lease"):
            lease = take(run_id, root, holder=holder)
        known = load(run_id, root)
        if known and known.state not in UNFINISHED:
            raise JournalError(
                f"run {run_id} has ended ({known.state}). Start another one, with a new run_id."
            )
        left = [run.run_id for run in abandoned(root, own=run_id)]
        if left:
            release(run_id, root)
            raise JournalError(
                f"run {left[0]} was interrupted and has to be put back first: "
                "fleet.mysqltune.tuning_journal with state=opened does that."
            )
        return cls(run_id, root, lease.holder)

    def begin(self) -> None:
        """Write the run down as open. ``write`` and ``remove`` do it by themselves."""
        if load(self.run_id, self.root):
            return
        for directory in (os.path.join(self.root, "runs"), self._directory, self._blob("")):
            make_directory(directory, 0o700)
        set_aside(self._directory)
        append_record(self._path, begin_record(self.run_id, self.root, boot_id(), self._holder))

    def write(
        self,
        path: str,
        content: bytes,
        mode: Optional[int] = None,
        validate: Optional[Validate] = None,
        kind: Optional[str] = None,
    ) -> bool:
        """Give the file at ``path`` this content; True if it was changed.

        Links are followed. Owner, mode and extended attributes are kept; ``mode`` changes the mode, and a
        new file gets 0644. Missing directories are made. ``validate`` gets the path of the new file before
        it takes its place and returns what is wrong with it, or None. ``kind`` (optional) names how
        ``restore`` takes our part out of a file that somebody else changed later (``decision.KINDS``).
        """
        path = os.path.realpath(path)
        with _explained(f"cannot write {path}"):
            before = read_state(path)
            if before and before.content == content and mode in (None, before.mode):
                return False
            self._renew()
            self._make_directories(os.path.dirname(path))
            planned = _planned(before, content, mode)
            temp = self._record_change(path, before, planned, kind)
            self._stage(path, planned, temp, validate)
            move(temp, path)
        return True

    def remove(self, path: str, kind: Optional[str] = None) -> bool:
        """Remove the file at ``path``; True if it was there."""
        path = os.path.realpath(path)
        with _explained(f"cannot remove {path}"):
            before = read_state(path)
            if before is None:
                return False
            self._renew()
            self._record_change(path, before, None, kind)
            remove(path)
        return True

    def set_value(self, path: str, value: str) -> bool:
        """Set a value of the running kernel (``durable.read_value`` tells which form); True if it was changed."""
        with _explained(f"cannot set {path}"):
            before = read_value(path)
            if before == value:
                return False
            self._renew()
            record = {"op": "value", "path": path, "before": before, "planned": value}
            append_record(self._path, dict(record, time=time.time()))
            write_value(path, value)
        return True

    def on_restore(self, argv: List[str]) -> None:
        """Let ``restore`` run this command once, after the files are back (``systemctl daemon-reload``)."""
        self._append({"op": "on_restore", "argv": list(argv)})

    def note(self, **facts: Any) -> None:
        """Write facts down for people; nothing reads them back to decide."""
        self._append({"op": "note", "facts": facts})

    def mark(self, state: str, message: str = "", reason: str = "") -> None:
        """Write the run's state down; the lease stays."""
        self._append(state_record(state, message, reason))

    def close(self, state: str, message: str = "", reason: str = "") -> None:
        """Write the run's last state down, if the run wrote anything at all, and give the lease back."""
        if load(self.run_id, self.root):
            self.mark(state, message, reason)
        release(self.run_id, self.root)

    def _append(self, record: Record) -> None:
        with _explained(f"cannot write the journal of run {self.run_id}"):
            self._renew()
            append_record(self._path, dict(record, time=time.time()))

    def _renew(self) -> None:
        take(self.run_id, self.root, holder=self._holder)
        self.begin()

    def _make_directories(self, directory: str) -> None:
        for path in missing_directories(directory):
            append_record(self._path, {"op": "directory", "path": path, "time": time.time()})
            make_directory(path, 0o755)

    def _record_change(
        self, path: str, before: Optional[FileState], planned: Optional[FileState], kind: Optional[str]
    ) -> str:
        """Write down what is there and what will be; return the name of the temporary file."""
        if before:
            self._keep(before.content)
        temp = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{self.run_id}.tmp")
        record = {"op": "before", "path": path, "temp": temp, "kind": kind}
        append_record(
            self._path, dict(record, before=_image(before), planned=_image(planned), time=time.time())
        )
        return temp

    def _keep(self, content: bytes) -> None:
        """Keep a before-image: under its hash, whole or not at all."""
        blob = self._blob(sha256(content))
        if os.path.exists(blob):
            return
        discard(f"{blob}.tmp")
        create(f"{blob}.tmp", FileState(content, 0o600, os.geteuid(), os.getegid(), {}))
        move(f"{blob}.tmp", blob)

    def _blob(self, name: str) -> str:
        return os.path.join(self._directory, "blobs", name).rstrip("/")

    def _stage(self, path: str, planned: FileState, temp: str, validate: Optional[Validate]) -> None:
        try:
            discard(temp)
            create(temp, planned)
            problem = validate(temp) if validate else None
            if problem:
                raise JournalError(f"{path} was left as it is, its new content is not valid: {problem}")
        except BaseException:
            discard(temp)
            append_record(self._path, {"op": "cancelled", "path": path, "time": time.time()})
            raise


def state_record(state: str, message: str = "", reason: str = "") -> Record:
    return {"op": "state", "state": state, "message": message, "reason": reason, "time": time.time()}


def _planned(before: Optional[FileState], content: bytes, mode: Optional[int]) -> FileState:
    if before is None:
        return FileState(content, 0o644 if mode is None else mode, os.geteuid(), os.getegid(), {})
    return before._replace(content=content, mode=before.mode if mode is None else mode)


def _image(state: Optional[FileState]) -> Record:
    if state is None:
        return {"sha256": None}
    xattrs = [[name, base64.b64encode(value).decode()] for name, value in sorted(state.xattrs.items())]
    return {"sha256": state.sha256, "mode": state.mode, "uid": state.uid, "gid": state.gid, "xattrs": xattrs}


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn an error of the system into one sentence."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename and str(error.filename) not in what else ""
        raise JournalError(f"{what}{where}: {error.strerror or error}. The file is as it was.") from error


def ad_hoc_run_id() -> str:
    """Return a run id for a module that was called without one."""
    return time.strftime("adhoc-%Y%m%dT%H%M%SZ-", time.gmtime()) + secrets.token_hex(3)


@contextlib.contextmanager
def journal_for(run_id: Optional[str], root: str = STATE_ROOT) -> Iterator[Journal]:
    """Open the journal of ``run_id``.

    Without one, make a run of its own: committed at the end, undone if the block raises.
    """
    ensure_root(root)
    journal = Journal.open(run_id or ad_hoc_run_id(), root)
    try:
        yield journal
    except BaseException:
        if not run_id:
            restore(journal.run_id, root)
        raise
    if not run_id:
        journal.close("committed")
