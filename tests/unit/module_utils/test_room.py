# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is full, or becomes full: real file systems of some kilobytes would need root, so ``os.write`` refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils import room
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import load

REAL_WRITE = os.write


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def fill(monkeypatch: pytest.MonkeyPatch, reserve: Path) -> None:
    """Let every write fail as long as the reserve takes the last room."""

    def write(descriptor: int, content: bytes) -> int:
        if reserve.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return REAL_WRITE(descriptor, content)

    monkeypatch.setattr(os, "write", write)


def test_a_run_is_refused_before_its_first_change_if_the_journal_has_no_room(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("old\n")
    with j.journal_for("run-1", root) as journal:
        monkeypatch.setattr(room, "SIZE", 1 << 62)
        monkeypatch.setattr(os, "urandom", lambda _size: b"x")
        fill(monkeypatch, Path(root))
        with pytest.raises(j.JournalError, match=r"cannot write .*No space left on device"):
            journal.write(str(tmp_path / "file"), b"new\n")
    assert (tmp_path / "file").read_text() == "old\n"


def test_the_reserve_tells_the_room_that_is_left_and_the_room_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, tmp_path)
    with pytest.raises(
        j.JournalError, match=rf"{tmp_path} has \d+ bytes left, and the journal needs {room.SIZE}"
    ):
        room.set_aside(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_undo_on_a_full_disk_takes_the_reserve(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("old\n")
    with j.journal_for("run-1", root) as journal:
        journal.write(str(tmp_path / "file"), b"new\n")
    reserve = Path(root, "runs", "run-1", "reserve")
    assert reserve.stat().st_size == room.SIZE
    fill(monkeypatch, reserve)
    outcome = j.restore("run-1", root)
    monkeypatch.undo()
    assert outcome.ok and (tmp_path / "file").read_text() == "old\n"
    known = load("run-1", root)
    assert known and known.state == "restored"


def test_another_error_than_a_full_disk_is_not_repeated(tmp_path: Path) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.raises(OSError, match="Read-only"):
        room.with_room([str(tmp_path)], fail)
    assert calls == [1]
