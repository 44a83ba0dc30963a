# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for
from ansible_collections.fleet.mysqltune.plugins.modules import tuning_journal


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tuning_journal, "STATE_ROOT", str(tmp_path / "state"))
    return str(tmp_path / "state")


@pytest.fixture
def file(tmp_path: Path, root: str) -> Path:
    """Make a file that a committed run changed."""
    path = tmp_path / "my.cnf"
    path.write_text("password=secret\n")
    with journal_for("run-1", root) as journal:
        journal.write(str(path), b"password=other\n")
    journal.close("committed", "proved")
    return path


def run(capsys: pytest.CaptureFixture[str], state: str, **params: Any) -> Dict[str, Any]:
    with patch_module_args(dict(params, state=state)), pytest.raises(SystemExit):
        tuning_journal.main()
    result: Dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_latest_run_is_undone_and_then_there_is_nothing_to_do(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    first = run(capsys, "restored")
    assert (first["changed"], first["run_ids"]) == (True, ["run-1"])
    assert first["files"] == [{"run_id": "run-1", "path": str(file), "action": "put back as it was before"}]
    assert file.read_text() == "password=secret\n"
    second = run(capsys, "restored")
    assert (second["changed"], second["files"]) == (False, [])
    assert second["msg"].startswith("nothing to undo: every run is undone already")


def test_check_mode_and_diff_name_the_file_and_show_no_content(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    result = run(capsys, "restored", _ansible_check_mode=True, _ansible_diff=True)
    assert (result["changed"], result["msg"]) == (True, "run-1 would be undone")
    assert result["diff"][0]["before_header"] == str(file)
    assert "secret" not in json.dumps(result) and "other" not in json.dumps(result["diff"])
    assert file.read_text() == "password=other\n"


def test_what_somebody_else_changed_fails_and_is_said(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("password=changed by a colleague\n")
    result = run(capsys, "restored", run_id="run-1")
    assert result["failed"] is True and f"{file} was changed by somebody else" in result["msg"]
    assert "colleague" not in json.dumps(result)


def test_the_runs_are_listed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    result = run(capsys, "listed")
    (listed,) = result["runs"]
    assert (result["changed"], result["lease"]) == (False, None)
    assert (listed["run_id"], listed["state"], listed["message"]) == ("run-1", "committed", "proved")
    assert listed["files"] == [str(file)]


def test_a_lease_is_taken_refused_to_others_and_given_back(
    capsys: pytest.CaptureFixture[str], root: str
) -> None:
    assert run(capsys, "opened", run_id="run-1", holder="ann on laptop")["changed"] is False
    refused = run(capsys, "opened", run_id="run-2")
    assert refused["failed"] is True and "run run-1 (ann on laptop) holds this host until" in refused["msg"]
    assert run(capsys, "listed")["lease"]["live"] is True
    run(capsys, "closed", run_id="run-1")
    assert run(capsys, "opened", run_id="run-2")["changed"] is False
    assert root


def test_old_runs_are_pruned_when_asked(capsys: pytest.CaptureFixture[str], file: Path, root: str) -> None:
    with journal_for(None, root) as journal:
        journal.write(str(file), b"more\n")
    planned = run(capsys, "pruned", keep=1, _ansible_check_mode=True)
    assert (planned["changed"], planned["pruned"]) == (True, ["run-1"])
    assert run(capsys, "pruned", keep=1)["pruned"] == ["run-1"]
    assert run(capsys, "pruned", keep=1)["changed"] is False


@pytest.mark.parametrize("state", ["opened", "closed"])
def test_a_run_id_is_required_where_a_run_is_meant(
    capsys: pytest.CaptureFixture[str], root: str, state: str
) -> None:
    assert "run_id" in run(capsys, state)["msg"] and root
