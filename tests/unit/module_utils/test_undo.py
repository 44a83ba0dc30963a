# SPDX-License-Identifier: GPL-3.0-or-later
"""Undoing where something is in the way, and values of the running kernel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils import undo
from ansible_collections.fleet.mysqltune.plugins.module_utils.durable import FileState, read_value
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import left_files, load
from killing import KILLED, deaths, run_and_die


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    path = tmp_path / "enabled"
    path.write_text("always madvise never\n".replace("always", "[always]"))
    return path


def set_pages(root: str, pages: Path, value: str = "madvise", run_id: str = "run-1") -> bool:
    with j.journal_for(run_id, root) as journal:
        changed = journal.set_value(str(pages), value)
        journal.close("committed")
    return changed


def test_a_choice_of_the_kernel_is_read_from_its_brackets_and_a_number_as_it_is(tmp_path: Path) -> None:
    for text, value in [("always [madvise] never\n", "madvise"), ("60\n", "60"), ("[never]", "never")]:
        (tmp_path / "value").write_text(text)
        assert read_value(str(tmp_path / "value")) == value


def test_a_value_is_set_once_and_set_back(root: str, pages: Path) -> None:
    assert set_pages(root, pages)
    assert not set_pages(root, pages, run_id="run-2")
    assert read_value(str(pages)) == "madvise"
    outcome = j.restore("run-1", root)
    assert (outcome.ok, outcome.changed, read_value(str(pages))) == (True, True, "always")
    assert outcome.files[0]["action"] == "set back from madvise to always"
    assert not j.restore("run-1", root).changed


def test_a_value_that_somebody_else_set_since_is_left_and_named(root: str, pages: Path) -> None:
    set_pages(root, pages)
    pages.write_text("always madvise [never]\n")
    outcome = j.restore(None, root)
    assert not outcome.ok and "was set to never by somebody else" in outcome.message
    assert read_value(str(pages)) == "never"


def test_check_mode_sets_nothing_back(root: str, pages: Path) -> None:
    set_pages(root, pages)
    assert j.restore(None, root, check=True).changed
    assert read_value(str(pages)) == "madvise"


def test_a_kill_while_a_value_is_set_can_be_undone(tmp_path: Path, pages: Path) -> None:
    def change(root: str) -> None:
        j.Journal.open("run-1", root).set_value(str(pages), "madvise")

    for point in deaths(lambda: change(str(tmp_path / "trial"))):
        pages.write_text("always [never] madvise\n")
        root = str(tmp_path / f"state{point}")
        assert run_and_die(lambda: change(root), point)[0] == KILLED  # noqa: B023 - called at once
        if pages.read_text() in ("", "madv"):
            pages.write_text("madvise\n")  # the kernel takes a write as a whole
        j.restore("run-1", root)
        assert read_value(str(pages)) == "never" or load("run-1", root) is None


def test_one_file_that_cannot_be_put_back_keeps_none_of_the_others(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["first", "stuck", "last"]
    for name in names:
        (tmp_path / name).write_text("old\n")
    with j.journal_for("run-1", root) as journal:
        for name in names:
            journal.write(str(tmp_path / name), b"new\n")
        journal.on_restore(["touch", str(tmp_path / "reloaded")])
    real = undo.replace

    def replace(path: str, state: FileState, temp: str) -> None:
        if path.endswith("stuck"):
            raise OSError(30, "Read-only file system")
        real(path, state, temp)

    monkeypatch.setattr(undo, "replace", replace)
    outcome = j.restore("run-1", root)
    assert [(tmp_path / name).read_text() for name in names] == ["old\n", "new\n", "old\n"]
    assert (tmp_path / "reloaded").exists()
    assert f"{tmp_path}/stuck cannot be put back: Read-only file system" in outcome.message
    monkeypatch.undo()
    assert j.restore("run-1", root).ok
    assert (tmp_path / "stuck").read_text() == "old\n"


def test_a_file_that_is_as_before_is_not_touched_by_the_undo(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")
    with j.journal_for("run-1", root) as journal:
        journal.write(str(path), b"new\n")
    path.write_text("old\n")

    def refuse(*arguments: Any) -> None:
        raise OSError(30, "Read-only file system", *arguments)

    for name in ("replace", "remove", "discard"):
        monkeypatch.setattr(undo, name, refuse)
    outcome = j.restore("run-1", root)
    assert (outcome.ok, outcome.changed) == (True, False)


def test_what_the_committed_runs_left_is_known_by_its_hash(root: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.write_text("old\n")
    for run_id, content in [("run-1", b"1\n"), ("run-2", b"2\n"), ("run-3", b"3\n")]:
        with j.journal_for(run_id, root) as journal:
            journal.write(str(first), content)
            if run_id == "run-1":
                journal.remove(str(second))
            journal.close("committed")
    j.restore("run-3", root)
    known = [(left["path"], left["sha256"], left["run_id"]) for left in left_files(root)]
    hashed = FileState(first.read_bytes(), 0, 0, 0, {}).sha256
    assert first.read_bytes() == b"2\n"
    assert known == [(str(first), hashed, "run-2"), (str(second), None, "run-1")]
    assert os.path.exists(root)
