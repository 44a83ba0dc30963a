# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules' side: the program is installed and started for real, on a server of the test's own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import activation, detached, lease, restart
from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import load, program_lock, run_directory
from fake_server import FakeServer


@pytest.fixture(autouse=True)
def _without_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (restart, detached):
        monkeypatch.setattr(module, "SYSTEMD", str(tmp_path / "no-systemd"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    made = FakeServer(tmp_path / "a")
    yield made
    made.stop()


def stage(root: str, run_id: str, server: FakeServer, word: str) -> None:
    with j.journal_for(run_id, root) as journal:
        journal.write(str(server.settings), f"{word}\n".encode())


def params(server: FakeServer, run_id: str = "run-1", **changes: Any) -> Dict[str, Any]:
    values = {"run_id": run_id, "instances": [server.observed()], "timeout": 1, "recovery": 1, "settle": 0}
    return dict(values, **changes)


def test_a_run_is_activated_once_and_its_result_is_kept(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    asked = params(server)
    first = activation.activate(asked, root)
    assert (first["state"], first["changed"]) == ("committed", True)
    running = server.pids()
    again = activation.activate(asked, root)
    assert (again["changed"], again["instances"]) == (False, first["instances"])
    assert server.pids() == running


def test_the_result_survives_in_the_journal_alone(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    asked = params(server)
    first = activation.activate(asked, root)
    os.unlink(os.path.join(run_directory("run-1", root), "result.json"))
    assert activation.activate(asked, root)["instances"] == first["instances"]


def test_a_failed_run_tells_the_same_again(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "crash")
    asked = params(server)
    first = activation.activate(asked, root)
    assert (first["state"], first["reason"]) == ("restored", "crash")
    again = activation.activate(asked, root)
    assert (again["message"], again["changed"]) == (first["message"], False)


def test_the_program_ends_the_transaction_without_whoever_started_it(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "hang")
    asked = params(server)
    pid = os.fork()
    if pid == 0:
        activation.activate(asked, root)
        os._exit(0)
    wait_until(lambda: detached.program_running("run-1", root))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    wait_until(lambda: detached.result("activate", "run-1", root) is not None)
    assert server.settings.read_text() == "well\n" and len(server.pids()) == 1
    run = load("run-1", root)
    assert run and (run.state, run.reason) == ("restored", "hang")


def test_a_caller_that_comes_back_waits_for_the_program_at_work(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "hang")
    asked = params(server)
    pid = os.fork()
    if pid == 0:
        activation.activate(asked, root)
        os._exit(0)
    wait_until(lambda: detached.program_running("run-1", root))
    with pytest.raises(lease.JournalError, match="is still at work on this host"):
        activation.undo("run-1", {}, root)
    result = activation.activate(asked, root)
    os.waitpid(pid, 0)
    assert (result["state"], result["reason"]) == ("restored", "hang")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_undo_restarts_the_server_on_the_old_state(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    activation.activate(params(server), root)
    activation.close_run("run-1", root)
    before = server.pids()
    planned = activation.undo(None, params(server), root, check_only=True)
    assert planned["msg"] == "run-1 would be undone" and server.pids() == before
    result = activation.undo(None, params(server), root)
    assert (result["ok"], result["changed"], result["run_ids"]) == (True, True, ["run-1"])
    assert server.settings.read_text() == "well\n" and server.pids() != before
    again = activation.undo("run-1", params(server), root)
    assert not again["changed"]
    assert again["msg"] == "nothing to undo: run-1 is undone already, or changed nothing"
    assert lease.current(root) is None


def test_undo_through_newer_runs_restarts_once(root: str, server: FakeServer) -> None:
    for number in (1, 2):
        stage(root, f"run-{number}", server, f"fine{number}")
        activation.activate(params(server, f"run-{number}"), root)
        activation.close_run(f"run-{number}", root)
    result = activation.undo("run-1", params(server), root)
    assert result["run_ids"] == ["run-2", "run-1"] and server.settings.read_text() == "well\n"
    assert len(result["instances"]) == 1


def test_undo_without_instances_says_that_a_restart_is_required(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    activation.activate(params(server), root)
    before = server.pids()
    result = activation.undo("run-1", {}, root)
    assert result["restart_required"] is True and server.pids() == before
    assert server.settings.read_text() == "well\n"


def kill_in_the_middle(root: str, server: FakeServer) -> Dict[str, Any]:
    """Start an activation that hangs, and kill its program; return what was asked."""
    stage(root, "run-1", server, "hang")
    asked = params(server, timeout=60)
    old = asked["instances"][0]["pid"]
    pid = os.fork()
    if pid == 0:
        activation.activate(asked, root)
        os._exit(0)
    wait_until(lambda: server.pids() != {} and old not in server.pids())
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    kill_program(root)
    return asked


def assert_back(server: FakeServer) -> None:
    assert server.settings.read_text() == "well\n"
    assert len(server.pids()) == 1 and server.socket.exists()


def test_the_next_run_finishes_what_a_killed_transaction_left(root: str, server: FakeServer) -> None:
    kill_in_the_middle(root, server)
    with pytest.raises(lease.LeaseHeld):
        activation.open_run("run-2", {}, root)
    lease.take("run-1", root, ttl=-1)
    recovered = activation.open_run("run-2", {"timeout": 5}, root)
    assert recovered["msg"].startswith("run-1 was interrupted (activating); run-1 undone")
    assert_back(server)
    held = lease.current(root)
    assert held and held.run_id == "run-2"


def test_asking_a_killed_transaction_again_brings_the_server_back(root: str, server: FakeServer) -> None:
    asked = kill_in_the_middle(root, server)
    result = activation.activate(asked, root)
    assert (result["state"], result["reason"]) == ("restored", "interrupted")
    assert_back(server)


def test_undoing_a_killed_transaction_knows_its_servers_by_itself(root: str, server: FakeServer) -> None:
    kill_in_the_middle(root, server)
    assert activation.undo("run-1", {"timeout": 5}, root)["ok"]
    assert_back(server)


def test_undoing_a_failed_restore_starts_the_server_that_it_left_down(root: str, server: FakeServer) -> None:
    server.settings.write_text("crash\n")
    stage(root, "run-1", server, "hang")
    assert activation.activate(params(server), root)["state"] == "restore_failed"
    assert not server.pids()
    server.settings.write_text("well\n")
    activation.undo("run-1", {"timeout": 5}, root)
    assert server.pids()


def test_the_program_knows_the_home_of_the_clients_own_option_file() -> None:
    asked: list[list[str]] = []

    def refuse(argv: list[str], **_: Any) -> Completed:
        asked.append(argv)
        return Completed(1, "", "no")

    with pytest.raises(lease.JournalError, match="systemd-run did not start"):
        detached._start_unit(["true"], "unit", refuse)
    assert f"--setenv=HOME={os.path.expanduser('~')}" in asked[0]


def kill_program(root: str) -> None:
    """End the detached program of this test, found by the path of its own run."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(root.encode()) and word.endswith(b".pyz") for word in words):
            os.kill(int(name), 9)
    wait_until(lambda: not detached.program_running("run-1", root))


def test_a_server_that_nothing_would_start_again_is_refused_before_anything(
    root: str, server: FakeServer
) -> None:
    bare = server.observed(launcher={"kind": "bare"})
    with pytest.raises(lease.JournalError, match="nothing would start it again"):
        activation.activate(params(server, instances=[bare]), root)
    assert not os.path.exists(root)


def test_undoing_the_latest_run_respects_one_that_is_at_work(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    activation.activate(params(server), root)
    running = server.pids()
    with pytest.raises(lease.LeaseHeld, match="run-1"):
        activation.undo(None, params(server), root)
    assert server.pids() == running
    assert activation.undo("run-1", params(server), root)["ok"]


def test_opening_in_check_mode_takes_nothing(root: str) -> None:
    activation.open_run("run-1", {}, root, check_only=True)
    assert not os.path.exists(root)
    lease.take("run-1", root)
    with pytest.raises(lease.LeaseHeld):
        activation.open_run("run-2", {}, root, check_only=True)


def test_a_run_that_changed_nothing_leaves_nothing_to_undo(root: str) -> None:
    activation.open_run("run-1", {}, root)
    activation.close_run("run-1", root)
    assert lease.current(root) is None
    assert activation.undo(None, {}, root)["msg"] == "nothing to undo: no run has changed this host"
    unknown = activation.undo("run-2", {}, root)
    assert (unknown["ok"], unknown["known"]) == (True, False)


def test_a_run_closed_without_a_restart_is_committed_as_it_stands(root: str, server: FakeServer) -> None:
    stage(root, "run-1", server, "fine")
    activation.close_run("run-1", root)
    run = load("run-1", root)
    assert run and run.state == "committed" and run.undoable


def test_undoing_a_dead_run_that_changed_nothing_gives_its_lease_back(root: str) -> None:
    activation.open_run("run-1", {}, root)
    activation.undo("run-1", {}, root)
    assert lease.current(root) is None


def test_the_program_holds_all_that_it_imports_and_nothing_of_ansible(tmp_path: Path) -> None:
    path = tmp_path / "program.pyz"
    path.write_bytes(detached.program())
    names = zipfile.ZipFile(BytesIO(path.read_bytes())).namelist()
    assert {f"{detached.PACKAGE}/{name}.py" for name in ("transaction", "undo", "mysqld_safe", "sql")} <= set(
        names
    )
    assert not [name for name in names if "plan" in name or "sysbench" in name]
    lock = program_lock("run-1", str(tmp_path))
    os.makedirs(os.path.dirname(lock))
    argv = [sys.executable, "-I", str(path), "activate", str(tmp_path), "run-1"]
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "another program of run run-1 is at work\n")


def fail_to_restore(root: str, server: FakeServer) -> Dict[str, Any]:
    """End an activation in ``restore_failed``, its server down; return what was asked."""
    stage(root, "run-1", server, "crash")
    asked = params(server)
    server.settings.write_text("crash\nby a colleague\n")
    assert activation.activate(asked, root)["state"] == "restore_failed"
    assert server.pids() == {}
    return asked


def test_undoing_a_failed_restore_starts_its_server_even_if_it_is_given_as_stopped(
    root: str, server: FakeServer
) -> None:
    asked = fail_to_restore(root, server)
    server.settings.write_text("crash\n")
    down = [dict(one, pid=None, launcher={"kind": "stopped"}) for one in asked["instances"]]
    result = activation.undo(None, {"timeout": 5, "instances": down}, root)
    assert (result["ok"], result["changed"]) == (True, True)
    assert_back(server)
    run = load("run-1", root)
    assert run and run.state == "restored"


def test_a_failed_restore_stays_one_while_its_server_is_down(root: str, server: FakeServer) -> None:
    fail_to_restore(root, server)
    result = activation.undo("run-1", {"timeout": 1}, root)
    assert not result["ok"] and "could not be undone" in result["msg"]
    assert "was changed by somebody else" in result["msg"]
    assert "does not run on the old state (crash)" in result["msg"]
    run = load("run-1", root)
    assert run and run.state == "restore_failed" and run.undoable


def test_a_failed_restore_that_changed_no_file_can_be_undone_as_well(root: str) -> None:
    journal = j.Journal.open("run-1", root)
    journal.begin()
    run = load("run-1", root)
    assert run and not run.undoable
    journal.close("restore_failed")
    run = load("run-1", root)
    assert run and run.undoable


def test_the_program_knows_that_home_without_systemd_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    environments: List[Dict[str, str]] = []
    monkeypatch.setattr(detached, "HOME", "/home/of-root")
    monkeypatch.setattr(detached.subprocess, "Popen", lambda *_args, **kept: environments.append(kept["env"]))
    detached._start_session(["true"])
    assert environments[0]["HOME"] == "/home/of-root"
