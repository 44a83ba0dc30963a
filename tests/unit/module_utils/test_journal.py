# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Dict, Optional, Tuple

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import decision, lease
from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import load, runs
from killing import KILLED, deaths, run_and_die

Content = Dict[str, Optional[Tuple[bytes, int]]]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    directory = tmp_path / "etc"
    directory.mkdir()
    (directory / "edited").write_bytes(b"old edited\n")
    (directory / "edited").chmod(0o640)
    (directory / "removed").write_bytes(b"old removed\n")
    return directory


def change_everything(root: str, etc: Path) -> None:
    with j.journal_for("run-1", root) as journal:
        journal.begin()
        journal.write(str(etc / "edited"), b"new edited\n")
        journal.write(str(etc / "edited"), b"newer edited\n", mode=0o600)
        journal.write(str(etc / "unit.d" / "deep" / "created"), b"created\n")
        journal.remove(str(etc / "removed"))
        journal.on_restore(["true"])


def tree(directory: Path) -> Content:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mode & 0o7777)
        if path.is_file()
        else None
        for path in sorted(directory.rglob("*"))
    }


def test_a_file_is_written_with_its_mode_and_put_back_with_its_mode(root: str, etc: Path) -> None:
    before = tree(etc)
    change_everything(root, etc)
    assert (etc / "edited").read_bytes() == b"newer edited\n"
    assert (etc / "edited").stat().st_mode & 0o777 == 0o600
    outcome = j.restore("run-1", root)
    assert outcome.ok and outcome.changed
    assert tree(etc) == before


def test_a_second_restore_has_nothing_to_do(root: str, etc: Path) -> None:
    change_everything(root, etc)
    assert j.restore(None, root).changed
    again = j.restore("run-1", root)
    assert (again.changed, again.message) == (False, "nothing to undo")
    assert not j.restore(None, root).changed


def test_writing_what_is_there_already_leaves_no_trace(root: str, etc: Path) -> None:
    with j.journal_for("run-1", root) as journal:
        assert journal.write(str(etc / "edited"), b"old edited\n") is False
        assert journal.remove(str(etc / "nothing")) is False
    assert runs(root) == []


def test_a_kill_at_any_change_leaves_whole_files_and_the_next_run_recovers(tmp_path: Path, etc: Path) -> None:
    before = tree(etc)
    pristine = tmp_path / "pristine"
    shutil.copytree(etc, pristine)
    points = deaths(lambda: change_everything(str(tmp_path / "count"), etc))
    assert len(points) > 60
    for point in points:
        fresh(etc, pristine)
        root = str(tmp_path / f"state-{point}")
        code, _count = run_and_die(lambda r=root: change_everything(r, etc), point)  # type: ignore[misc]
        assert code == KILLED
        assert_old_or_new(etc)
        lease.release("run-1", root)
        outcome = j.recover(root)
        assert outcome.ok, (point, outcome)
        assert tree(etc) == before, point
        with j.journal_for("run-2", root) as journal:
            assert journal.write(str(etc / "edited"), b"next\n")


def test_a_kill_at_any_change_of_the_restore_can_be_restored_again(tmp_path: Path, etc: Path) -> None:
    before = tree(etc)
    pristine, changed = tmp_path / "pristine", tmp_path / "changed"
    shutil.copytree(etc, pristine)
    template = str(tmp_path / "template")
    change_everything(template, etc)
    shutil.copytree(etc, changed)
    root = str(tmp_path / "state")

    def restore() -> None:
        assert j.restore("run-1", root, run=lambda *_a, **_k: Completed(0, "", "")).ok

    shutil.copytree(template, root)
    points = deaths(restore)
    assert len(points) > 20
    for point in points:
        fresh(etc, changed)
        shutil.rmtree(root)
        shutil.copytree(template, root)
        assert run_and_die(restore, point)[0] == KILLED
        assert_old_or_new(etc)
        restore()
        assert tree(etc) == before, point


def fresh(etc: Path, template: Path) -> None:
    shutil.rmtree(etc)
    shutil.copytree(template, etc)


def assert_old_or_new(etc: Path) -> None:
    edited = (etc / "edited").read_bytes()
    assert edited in (b"old edited\n", b"new edited\n", b"newer edited\n")
    created = etc / "unit.d" / "deep" / "created"
    assert not created.exists() or created.read_bytes() == b"created\n"
    removed = etc / "removed"
    assert not removed.exists() or removed.read_bytes() == b"old removed\n"


def test_an_older_run_is_undone_through_the_newer_ones(root: str, etc: Path) -> None:
    before = tree(etc)
    for number in (1, 2, 3):
        with j.journal_for(f"run-{number}", root) as journal:
            journal.write(str(etc / "edited"), f"by run {number}\n".encode())
        journal.close("committed")
    assert j.restore("run-2", root).run_ids == ["run-3", "run-2"]
    assert (etc / "edited").read_bytes() == b"by run 1\n"
    assert j.restore(None, root).run_ids == ["run-1"]
    assert tree(etc) == before


def test_a_file_that_somebody_else_changed_is_left_alone_and_said(root: str, etc: Path) -> None:
    change_everything(root, etc)
    (etc / "edited").write_bytes(b"by a colleague\n")
    outcome = j.restore("run-1", root)
    assert not outcome.ok
    assert "edited was changed by somebody else after this run (now 15 bytes" in outcome.message
    assert (etc / "edited").read_bytes() == b"by a colleague\n"
    assert (etc / "removed").read_bytes() == b"old removed\n"
    run = load("run-1", root)
    assert run and run.state == "restore_failed"


def test_our_part_is_taken_out_of_a_file_that_somebody_else_changed(
    root: str, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(decision.KINDS, "mysqld_safe", lambda text: text.replace("ours\n", ""))
    with j.journal_for("run-1", root) as journal:
        journal.write(str(etc / "edited"), b"old edited\nours\n", kind="mysqld_safe")
    with (etc / "edited").open("ab") as stream:
        stream.write(b"a colleague's line, \xff\n")
    assert j.restore("run-1", root).ok
    assert (etc / "edited").read_bytes() == b"old edited\na colleague's line, \xff\n"


def test_a_mode_that_somebody_else_gave_the_file_is_kept(root: str, etc: Path) -> None:
    with j.journal_for("run-1", root) as journal:
        journal.write(str(etc / "edited"), b"new\n")
    (etc / "edited").chmod(0o604)
    assert j.restore("run-1", root).ok
    assert ((etc / "edited").read_bytes(), (etc / "edited").stat().st_mode & 0o777) == (
        b"old edited\n",
        0o604,
    )


def test_a_directory_that_is_not_empty_stays(root: str, etc: Path) -> None:
    change_everything(root, etc)
    (etc / "unit.d" / "colleague").write_bytes(b"")
    assert j.restore("run-1", root).ok
    assert sorted(path.name for path in (etc / "unit.d").iterdir()) == ["colleague"]


def test_a_directory_that_was_removed_since_is_made_again(root: str, etc: Path) -> None:
    (etc / "unit.d").mkdir()
    (etc / "unit.d" / "old").write_bytes(b"old\n")
    with j.journal_for("run-1", root) as journal:
        journal.remove(str(etc / "unit.d" / "old"))
    (etc / "unit.d").rmdir()
    assert j.restore("run-1", root).ok
    assert (etc / "unit.d" / "old").read_bytes() == b"old\n"


def test_links_are_followed_and_extended_attributes_kept(root: str, etc: Path) -> None:
    (etc / "link").symlink_to("edited")
    try:
        os.setxattr(etc / "edited", "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    with j.journal_for("run-1", root) as journal:
        journal.write(str(etc / "link"), b"new\n")
    assert (etc / "link").is_symlink() and (etc / "edited").read_bytes() == b"new\n"
    assert os.getxattr(etc / "edited", "user.note") == b"kept"
    assert j.restore("run-1", root).ok
    assert os.getxattr(etc / "edited", "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(root: str, etc: Path) -> None:
    os.chown(etc / "edited", 65534, 65534)
    with j.journal_for("run-1", root) as journal:
        journal.write(str(etc / "edited"), b"new\n")
    assert (etc / "edited").stat().st_uid == 65534
    assert j.restore("run-1", root).ok
    assert ((etc / "edited").stat().st_uid, (etc / "edited").stat().st_gid) == (65534, 65534)


def test_content_that_does_not_validate_is_never_installed(root: str, etc: Path) -> None:
    seen = []

    def validate(path: str) -> str:
        seen.append(Path(path).read_bytes())
        return "line 1: syntax error"

    journal = j.Journal.open("run-1", root)
    with pytest.raises(j.JournalError, match="its new content is not valid: line 1: syntax error"):
        journal.write(str(etc / "edited"), b"bad\n", validate=validate)
    assert seen == [b"bad\n"]
    assert sorted(path.name for path in etc.iterdir()) == ["edited", "removed"]
    assert (etc / "edited").read_bytes() == b"old edited\n"


def test_a_full_disk_gives_one_sentence_and_the_old_file(
    root: str, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with j.journal_for("run-1", root) as journal:
        journal.begin()
        monkeypatch.setattr(os, "fchmod", raise_full_disk)
        with pytest.raises(j.JournalError, match=r"cannot write .*edited \(.*\): No space left on device"):
            journal.write(str(etc / "edited"), b"new\n")
    assert sorted(path.name for path in etc.iterdir()) == ["edited", "removed"]


def raise_full_disk(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_journal_is_for_root_alone(root: str, etc: Path) -> None:
    change_everything(root, etc)
    for path in [Path(root), *Path(root).rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_state_directory_that_others_can_enter_is_refused(root: str) -> None:
    os.mkdir(root, 0o755)
    with pytest.raises(j.JournalError, match="only its owner"):
        j.Journal.open("run-1", root)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", "a\nb", "-x", "x" * 101])
def test_a_run_id_is_a_plain_name(root: str, name: str) -> None:
    with pytest.raises(j.JournalError, match="is not a name"):
        j.Journal.open(name, root)
    assert not os.path.exists(root)


def test_a_run_that_has_ended_takes_no_more_changes(root: str, etc: Path) -> None:
    change_everything(root, etc)
    j.Journal.open("run-1", root).close("committed")
    with pytest.raises(j.JournalError, match=r"has ended \(committed\)"):
        j.Journal.open("run-1", root)


def test_without_a_run_id_a_run_of_its_own_is_committed(root: str, etc: Path) -> None:
    with j.journal_for(None, root) as journal:
        journal.write(str(etc / "edited"), b"new\n")
    (run,) = j.listed(root)
    assert (run["state"], run["files"], run["undoable"]) == ("committed", [str(etc / "edited")], True)
    assert lease.current(root) is None


def test_without_a_run_id_an_error_undoes_what_was_done(root: str, etc: Path) -> None:
    before = tree(etc)

    def fail_half_way() -> None:
        with j.journal_for(None, root) as journal:
            journal.write(str(etc / "edited"), b"new\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert tree(etc) == before
    assert lease.current(root) is None


def test_commands_are_run_once_after_the_files_are_back(root: str, etc: Path) -> None:
    seen = []

    def run(argv: list[str], **_options: object) -> Completed:
        seen.append((argv, (etc / "edited").read_bytes()))
        return Completed(0, "", "")

    with j.journal_for("run-1", root) as journal:
        journal.write(str(etc / "edited"), b"new\n")
        journal.on_restore(["systemctl", "daemon-reload"])
        journal.on_restore(["systemctl", "daemon-reload"])
    j.restore("run-1", root, run=run)
    assert seen == [(["systemctl", "daemon-reload"], b"old edited\n")]


def test_check_tells_without_touching(root: str, etc: Path) -> None:
    change_everything(root, etc)
    before = tree(etc)
    outcome = j.restore("run-1", root, check=True)
    assert outcome.changed and outcome.message == "run-1 would be undone"
    assert tree(etc) == before
    assert outcome.files[0]["path"] == str(etc / "removed")


def test_an_interrupted_run_blocks_the_next_until_it_is_put_back(root: str, etc: Path) -> None:
    change_everything(root, etc)
    lease.release("run-1", root)
    with pytest.raises(j.JournalError, match="run-1 was interrupted and has to be put back first"):
        j.Journal.open("run-2", root)
    assert j.summary(root)["unfinished"][0]["run_id"] == "run-1"
    assert j.recover(root, own="run-2").ok
    assert j.summary(root)["unfinished"] == []
    assert j.Journal.open("run-2", root).run_id == "run-2"


def test_pruning_keeps_the_latest_the_unfinished_and_those_whose_restore_failed(root: str, etc: Path) -> None:
    for number in range(5):
        with j.journal_for(f"run-{number}", root) as journal:
            journal.write(str(etc / "edited"), f"{number}".encode())
        journal.close("committed")
    with j.journal_for("failed", root) as journal:
        journal.write(str(etc / "edited"), b"failed")
    journal.close("restore_failed")
    assert j.pruned(root, 2, check=True) == ["run-2", "run-1", "run-0"]
    assert j.pruned(root, 2) == ["run-2", "run-1", "run-0"]
    assert [run.run_id for run in runs(root)] == ["failed", "run-4", "run-3"]


def test_a_torn_last_record_counts_as_never_written(root: str, etc: Path) -> None:
    change_everything(root, etc)
    path = os.path.join(root, "runs", "run-1", "journal.jsonl")
    with open(path, "ab") as stream:
        stream.write(b'{"op": "before", "path": "/et')
    j.Journal.open("run-1", root).mark("committed", "fine")
    run = load("run-1", root)
    assert run and run.state == "committed" and len(run.changes) == 3


def test_a_damaged_blob_is_never_written_back(root: str, etc: Path) -> None:
    change_everything(root, etc)
    for blob in (Path(root) / "runs" / "run-1" / "blobs").iterdir():
        blob.write_bytes(b"rotten")
    with pytest.raises(j.JournalError, match="is missing or damaged"):
        j.restore("run-1", root)
    assert (etc / "edited").read_bytes() == b"newer edited\n"


def test_the_journal_holds_no_content_itself(root: str, etc: Path) -> None:
    change_everything(root, etc)
    text = Path(root, "runs", "run-1", "journal.jsonl").read_text()
    assert "new edited" not in text and json.loads(text.splitlines()[0])["op"] == "begin"
