# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that lies on the host, run as it is run there: by itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Tuple

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import host_undo, lease
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "state")
    host_undo.install(path)
    return path


@pytest.fixture
def file(tmp_path: Path, root: str) -> Path:
    """Make a file that two committed runs changed."""
    path = tmp_path / "file"
    path.write_text("old\n")
    for run_id in ("run-1", "run-2"):
        with journal_for(run_id, root) as journal:
            journal.write(str(path), run_id.encode())
            journal.close("committed", f"{run_id} was proved")
    return path


def undo(root: str, *options: str) -> Tuple[int, str]:
    done = subprocess.run(
        [os.path.join(root, "undo"), *options],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_is_for_root_alone_and_only_written_when_it_differs(root: str) -> None:
    path = Path(root, "undo")
    assert path.stat().st_mode & 0o7777 == 0o700
    assert not host_undo.install(root)
    path.write_bytes(b"another version")
    assert host_undo.install(root)


def test_the_latest_run_is_undone_then_the_one_before_it(root: str, file: Path) -> None:
    code, said = undo(root)
    assert (code, file.read_text()) == (0, "run-1")
    assert said.splitlines() == [f"{file}: put back as it was before", "run-2 undone"]
    assert undo(root)[0] == 0 and file.read_text() == "old\n"
    assert undo(root) == (0, "nothing to undo: every run is undone already, or changed nothing\n")


def test_a_run_is_undone_through_the_later_ones(root: str, file: Path) -> None:
    assert undo(root, "run-1")[0] == 0
    assert file.read_text() == "old\n"


def test_check_only_tells(root: str, file: Path) -> None:
    code, said = undo(root, "--check")
    assert (code, file.read_text()) == (0, "run-2")
    assert "run-2 would be undone" in said


def test_list_names_the_runs_and_who_holds_the_host(root: str, file: Path) -> None:
    lease.take("run-3", root, holder="a colleague")
    code, said = undo(root, "--list")
    lines = said.splitlines()
    assert code == 0
    assert lines[0] == "run run-3 (a colleague) holds this host"
    assert [line.split()[0] for line in lines[1:]] == ["run-2", "run-1"]
    assert "committed" in lines[1] and "run-2 was proved" in lines[1]
    assert file.read_text() == "run-2"


def test_a_run_at_work_is_not_disturbed(root: str, file: Path) -> None:
    lease.take("run-3", root, holder="a colleague")
    code, said = undo(root)
    assert (code, file.read_text()) == (1, "run-2")
    assert "run run-3 (a colleague) holds this host" in said


def test_an_unknown_run_is_named_with_those_that_exist(root: str, file: Path) -> None:
    code, said = undo(root, "TYPO")
    assert (code, said) == (1, "undo: this host knows no run TYPO, only run-2, run-1\n")
    assert file.read_text() == "run-2"


def test_what_somebody_else_changed_is_left_and_fails(root: str, file: Path) -> None:
    file.write_text("a colleague's\n")
    code, said = undo(root)
    assert (code, file.read_text()) == (1, "a colleague's\n")
    assert "was changed by somebody else after this run" in said


def test_help_documents_the_exit_status(root: str) -> None:
    code, said = undo(root, "--help")
    assert code == 0 and "Exit status" in said
    assert undo(root, "--wrong")[0] == 2


def test_a_state_directory_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host_undo, "replace", full)
    with pytest.raises(
        lease.JournalError, match=r"cannot write .*/undo \(\d+ bytes\).*: No space left on device"
    ):
        host_undo.install(str(tmp_path / "other"))
