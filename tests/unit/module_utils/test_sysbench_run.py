# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor with real processes; a shell stands in for sysbench."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import sysbench_run as runner
from ansible_collections.fleet.mysqltune.plugins.module_utils.durable import write_json


def job(tmp_path: Path, script: str, timeout: float = 20.0) -> runner.Job:
    return runner.Job(
        ["sysbench", "-c", script], "/bin/sh", str(tmp_path / "w"), str(tmp_path / "r"), timeout
    )


def test_output_and_exit_code_of_the_process_are_kept(tmp_path: Path) -> None:
    todo = job(tmp_path, "echo out; echo err >&2; exit 3")
    assert runner.start(todo)
    ended = runner.wait_for_end(todo)
    assert (ended["rc"], ended["killed_after"]) == (3, None)
    assert Path(todo.raw).read_text() == "out\nerr\n"


def test_a_process_that_never_ends_is_killed_at_the_timeout(tmp_path: Path) -> None:
    todo = job(tmp_path, "exec sleep 60", timeout=0.3)
    runner.start(todo)
    ended = runner.wait_for_end(todo)
    assert (ended["rc"], ended["killed_after"]) == (-9, 0.3)


def test_the_first_argument_is_the_name_and_not_the_path(tmp_path: Path) -> None:
    todo = job(tmp_path, "tr '\\0' ' ' </proc/$$/cmdline")
    runner.start(todo)
    runner.wait_for_end(todo)
    assert Path(todo.raw).read_text().startswith("sysbench -c ")


def test_the_supervisor_has_a_session_of_its_own_and_sees_no_inherited_file(tmp_path: Path) -> None:
    todo = job(tmp_path, "exec sleep 20")
    state = runner.start(todo)
    assert state and os.getsid(state["pid"]) == state["supervisor"] != os.getsid(0)
    assert runner.stop(todo.work) is True
    assert runner.running(todo.work) is None


def test_stopping_where_nothing_runs_does_nothing(tmp_path: Path) -> None:
    assert runner.stop(str(tmp_path)) is False


def test_a_recycled_process_id_is_not_taken_for_ours(tmp_path: Path) -> None:
    write_json(str(tmp_path / runner.RUNNING), {"pid": os.getpid(), "supervisor": os.getpid(), "birth": 1})
    assert runner.running(str(tmp_path)) is None


def test_a_program_that_cannot_be_executed_is_reported(tmp_path: Path) -> None:
    todo = job(tmp_path, "")._replace(executable=str(tmp_path / "none"))
    runner.start(todo)
    assert "No such file" in runner.wait_for_end(todo)["error"]


def test_the_lease_is_renewed_while_the_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RENEW_EVERY", 0.1)
    todo, marks = job(tmp_path, "sleep 0.7"), tmp_path / "marks"

    def renew() -> None:
        with marks.open("a") as stream:
            stream.write("x")
        raise RuntimeError("must not end the run")

    runner.start(todo, renew)
    assert runner.wait_for_end(todo)["rc"] == 0
    assert len(marks.read_text()) >= 3


def test_the_environment_is_the_one_at_the_start_of_the_process() -> None:
    code = (
        f"import sys, os; sys.path.insert(0, {str(Path(runner.__file__).parents[5])!r}); os.environ['LATER'] = '1'\n"
        "from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_run import login_environment\n"
        "print(sorted(login_environment()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"A": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['A']"
