# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction on small servers of its own; the real ones are in tests/faults."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import journal as j
from ansible_collections.fleet.mysqltune.plugins.module_utils import lease, restart, serving, transaction
from ansible_collections.fleet.mysqltune.plugins.module_utils.rollback import Undoing
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import load, recorded
from ansible_collections.fleet.mysqltune.plugins.module_utils.transaction import Activation
from fake_server import FakeServer, one_script

Make = Callable[[str], FakeServer]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make fake servers; they are launched as where there is no systemd."""
    monkeypatch.setattr(restart, "SYSTEMD", str(tmp_path / "no-systemd"))
    made = []

    def server(name: str) -> FakeServer:
        made.append(FakeServer(tmp_path / name))
        return made[-1]

    yield server
    for one in made:
        one.stop()


def stage(root: str, **settings: FakeServer) -> None:
    with j.journal_for("run-1", root) as journal:
        for word, server in settings.items():
            journal.write(str(server.settings), f"{word}\n".encode())


def activate(root: str, *observed: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    spec = {
        "run_id": "run-1",
        "root": root,
        "instances": list(observed),
        "timeout": 1,
        "recovery": 1,
        "settle": 0.2,
    }
    return Activation(dict(spec, **options)).perform()


def test_a_good_start_is_proved_and_committed_and_keeps_the_lease(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, fine=server)
    result = activate(root, observed)
    (instance,) = result["instances"]
    assert (result["state"], result["reason"]) == ("committed", None)
    assert (instance["state"], instance["level"], instance["old_pid"]) == (
        "committed",
        "effective",
        observed["pid"],
    )
    assert instance["new_pid"] in server.pids() and 0 < instance["downtime"] < 5
    assert server.settings.read_text() == "fine\n"
    run, held = load("run-1", root), lease.current(root)
    assert run and run.state == "committed"
    assert held and held.run_id == "run-1"
    assert recorded("run-1", "result.json", root) == result


@pytest.mark.parametrize(
    ("word", "reason", "said"),
    [
        ("crash", "crash", "crashed when it was restarted with the allocator of the system"),
        ("hang", "hang", "hung when it was restarted"),
        ("later", "crash", "did not stay up"),
    ],
)
def test_a_bad_start_ends_on_the_old_bytes(root: str, make: Make, word: str, reason: str, said: str) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, **{word: server})
    result = activate(root, observed, settle=2)
    assert (result["state"], result["reason"]) == ("restored", reason)
    assert said in result["message"] and result["message"].endswith("Everything was put back")
    assert server.settings.read_text() == "well\n"
    assert list(server.pids()) == [result["instances"][0]["new_pid"]]
    assert lease.current(root) is None
    run = load("run-1", root)
    assert run and (run.state, run.reason) == ("restored", reason)


def test_a_library_that_is_not_used_ends_on_the_old_bytes(root: str, make: Make) -> None:
    server = make("a")
    stage(root, fine=server)
    result = activate(root, server.observed(library="/usr/local/lib/never-preloaded.so"))
    assert result["state"] == "restored"
    assert "never-preloaded.so is only intended" in result["message"]
    assert server.settings.read_text() == "well\n" and len(server.pids()) == 1


def test_if_the_second_server_fails_the_first_is_put_back_as_well(root: str, make: Make) -> None:
    first, second = make("a"), make("b")
    observed = [first.observed(), second.observed()]
    stage(root, fine=first, crash=second)
    result = activate(root, *observed)
    assert [one["state"] for one in result["instances"]] == ["restored", "restored"]
    assert [one.settings.read_text() for one in (first, second)] == ["well\n", "well\n"]
    assert [len(one.pids()) for one in (first, second)] == [1, 1]
    assert list(first.pids()) != [observed[0]["pid"]]


def test_a_server_after_the_failed_one_is_not_touched(root: str, make: Make) -> None:
    first, second = make("a"), make("b")
    observed = [first.observed(), second.observed()]
    stage(root, crash=first, fine=second)
    result = activate(root, *observed)
    assert result["instances"][1]["message"] == "not restarted"
    assert list(second.pids()) == [observed[1]["pid"]]


def test_a_server_that_refuses_our_account_counts_as_answering(root: str, make: Make) -> None:
    server = make("a")
    stage(root, denied=server)
    result = activate(root, server.observed())
    assert result["state"] == "committed"
    assert result["instances"][0]["message"] == "it answers, but refuses our account"


def test_a_stopped_server_stays_stopped(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed(pid=None)
    server.stop()
    stage(root, fine=server)
    result = activate(root, observed)
    assert (result["state"], result["instances"][0]["state"]) == ("committed", "stopped")
    assert server.pids() == {}


def test_a_server_that_was_stopped_meanwhile_is_not_started(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    server.stop()
    stage(root, fine=server)
    result = activate(root, observed)
    assert (result["state"], result["reason"]) == ("restored", "stopped")
    assert server.pids() == {} and server.settings.read_text() == "well\n"


def test_a_server_that_does_not_answer_before_is_not_restarted(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    server.socket.unlink()
    stage(root, fine=server)
    result = activate(root, observed)
    assert (result["state"], result["reason"]) == ("restored", "no_answer")
    assert list(server.pids()) == [observed["pid"]]


def test_if_the_old_state_does_not_start_either_it_is_said_loudly(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, crash=server)
    server.settings.write_text("crash\nby a colleague\n")
    result = activate(root, observed)
    assert result["state"] == "restore_failed"
    assert "RESTORE FAILED" in result["message"] and "was changed by somebody else" in result["message"]
    assert lease.current(root) is None


def test_an_error_of_the_program_itself_puts_everything_back(
    root: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make("a")
    stage(root, fine=server)

    def broken(*_args: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(transaction, "collect", broken)
    result = activate(root, server.observed())
    assert (result["state"], result["reason"]) == ("restored", "internal")
    assert "ValueError('a bug')" in result["message"]
    assert server.settings.read_text() == "well\n" and len(server.pids()) == 1


def undo(root: str, *observed: Dict[str, Any], runs: Any = ("run-1",)) -> Dict[str, Any]:
    spec = {"run_id": "run-1", "root": root, "instances": list(observed), "timeout": 2, "undo": list(runs)}
    return Undoing(spec).perform()


def test_undoing_a_committed_run_restarts_the_server_once(root: str, make: Make) -> None:
    server = make("a")
    stage(root, fine=server)
    activate(root, server.observed())
    observed = server.observed()
    result = undo(root, observed)
    assert (result["state"], result["changed"]) == ("restored", True)
    assert server.settings.read_text() == "well\n"
    assert result["instances"][0]["old_pid"] == observed["pid"] and observed["pid"] not in server.pids()
    run = load("run-1", root)
    assert run and run.state == "restored" and not run.undoable


def test_undoing_a_run_leaves_a_server_alone_that_started_before_it(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    time.sleep(0.05)  # one tick of the kernel's clock, by which processes are dated
    stage(root, fine=server)
    result = undo(root, observed)
    assert (result["state"], result["instances"][0]["message"]) == ("restored", "not restarted")
    assert list(server.pids()) == [observed["pid"]] and server.settings.read_text() == "well\n"


@pytest.mark.parametrize("word", ["hang", "crash"])
def test_undoing_a_run_that_died_in_the_middle_brings_the_server_back(
    root: str, make: Make, word: str
) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, **{word: server})
    subprocess.run([server.script, "restart"], check=False)
    result = undo(root, observed)
    assert result["state"] == "restored"
    assert server.settings.read_text() == "well\n" and len(server.pids()) == 1 and server.socket.exists()


def test_a_refused_file_does_not_keep_a_server_that_is_down_from_being_started(root: str, make: Make) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, fine=server)
    server.stop()
    server.socket.unlink()
    server.settings.write_text("well\nby a colleague\n")
    result = undo(root, observed)
    assert result["state"] == "restore_failed" and "was changed by somebody else" in result["message"]
    assert len(server.pids()) == 1 and result["instances"][0]["state"] == "restored"


def test_a_refused_file_leaves_a_server_that_answers_alone(root: str, make: Make) -> None:
    server = make("a")
    stage(root, fine=server)
    activate(root, server.observed())
    observed = server.observed()
    server.settings.write_text("fine\nby a colleague\n")
    result = undo(root, observed)
    assert (result["state"], result["changed"]) == ("restore_failed", False)
    assert list(server.pids()) == [observed["pid"]]


def test_a_launcher_that_fails_and_stops_nothing_leaves_the_server_alone(
    root: str, make: Make, tmp_path: Path
) -> None:
    server = make("a")
    script = tmp_path / "fails"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    observed = server.observed(launcher={"kind": "sysv", "init_script": str(script)})
    stage(root, fine=server)
    result = activate(root, observed)
    assert (result["state"], result["reason"]) == ("restored", "not_restarted")
    assert "was not restarted with" in result["message"] and "ended with exit status 1" in result["message"]
    assert (result["instances"][0]["message"], result["instances"][0]["downtime"]) == ("not restarted", 0.0)
    assert list(server.pids()) == [observed["pid"]] and server.settings.read_text() == "well\n"


@pytest.mark.parametrize("busy", [True, False])
def test_a_refused_restart_spares_the_server_only_if_nothing_is_under_way(
    root: str, make: Make, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    server = make("a")
    observed = server.observed()
    stage(root, fine=server)
    real = restart.Script.restart
    refusals = [restart.RestartError("the answer was lost")]

    def refuse_once(script: restart.Script) -> None:
        if refusals:
            raise refusals.pop()
        real(script)

    monkeypatch.setattr(restart.Script, "restart", refuse_once)
    monkeypatch.setattr(restart.Script, "busy", lambda _script: busy)
    result = activate(root, observed)
    assert (result["state"], result["reason"]) == ("restored", "launcher_mismatch")
    assert (list(server.pids()) == [observed["pid"]]) is not busy and len(server.pids()) == 1


def test_an_account_that_is_refused_only_after_the_restart_is_said(root: str, make: Make) -> None:
    server = make("a")
    stage(root, denied=server)
    observed = server.observed(sql={"client": server.client, "reachable": True})
    said = activate(root, observed)["instances"][0]["message"]
    assert said == "it answers, but refuses our account, although it did not before the restart"


def test_servers_of_one_launcher_are_restarted_together_and_once(
    root: str, make: Make, tmp_path: Path
) -> None:
    first, second = make("a"), make("b")
    launcher = one_script(tmp_path / "multi", first, second)
    observed = [first.observed(launcher=launcher), second.observed(launcher=launcher)]
    stage(root, fine=first)
    result = activate(root, *observed)
    assert [one["state"] for one in result["instances"]] == ["committed", "committed"]
    assert (
        [list(one.pids()) for one in (first, second)]
        == [[one["new_pid"]] for one in result["instances"]]
        != [[one["pid"]] for one in observed]
    )


@pytest.mark.parametrize("word", ["crash", "hang", "later"])
def test_one_of_several_that_fails_puts_all_of_its_launcher_back(
    root: str, make: Make, tmp_path: Path, word: str
) -> None:
    first, second = make("a"), make("b")
    launcher = one_script(tmp_path / "multi", first, second)
    observed = [first.observed(launcher=launcher), second.observed(launcher=launcher)]
    stage(root, **{"fine": first, word: second})
    result = activate(root, *observed, settle=2)
    assert (result["state"], [one["state"] for one in result["instances"]]) == (
        "restored",
        ["restored", "restored"],
    )
    assert [len(one.pids()) for one in (first, second)] == [1, 1]
    assert [one.settings.read_text() for one in (first, second)] == ["well\n", "well\n"]


def test_a_sound_server_beside_a_broken_one_is_stopped_by_its_launcher_and_not_killed(
    root: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make("a"), make("b")
    launcher = one_script(tmp_path / "multi", first, second)
    stage(root, fine=first, hang=second)
    killed = []
    monkeypatch.setattr(serving, "kill_tree", lambda instance: killed.append(instance.name))
    monkeypatch.setattr(restart.Script, "kill", lambda _script: killed.append("all"))
    activate(root, *(one.observed(launcher=launcher) for one in (first, second)))
    assert killed == [str(second.datadir)]


def test_undoing_a_run_restarts_all_that_one_launcher_starts(root: str, make: Make, tmp_path: Path) -> None:
    first, second = make("a"), make("b")
    launcher = one_script(tmp_path / "multi", first, second)
    stage(root, fine=first)
    activate(root, *(one.observed(launcher=launcher) for one in (first, second)))
    observed = [one.observed(launcher=launcher) for one in (first, second)]
    result = undo(root, *observed)
    assert result["state"] == "restored"
    before = [one["pid"] for one in observed]
    assert not set(before) & {one["new_pid"] for one in result["instances"]}
    assert [len(one.pids()) for one in (first, second)] == [1, 1]


def test_a_server_without_the_variables_of_its_allocator_ends_on_the_old_bytes(root: str, make: Make) -> None:
    server = make("a")
    stage(root, fine=server)
    result = activate(root, server.observed(environment={"MALLOC_ARENA_MAX": "2"}))
    assert (result["state"], result["reason"]) == ("restored", "overridden")
    assert "something sets another MALLOC_ARENA_MAX after us" in result["message"]
    assert server.settings.read_text() == "well\n"


def test_a_program_starts_although_somebody_just_asks_whether_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "program.lock"
    asking, own = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert not transaction._taken(own, patience=0.05)
    threading.Timer(0.1, os.close, [asking]).start()
    assert transaction._taken(own, patience=20)
