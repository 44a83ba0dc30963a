# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import restart
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.restart import (
    Launcher,
    Log,
    RestartError,
    Script,
    Unit,
    launcher_of,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.servers import Instance, Process

UNIT = {"kind": "systemd", "unit": "mariadb.service"}


def instance(**launcher: Any) -> Instance:
    return Instance.of({"name": "x", "pid": 1, "exe": "/usr/sbin/mariadbd", "launcher": launcher})


class Systemctl:
    """Answers ``systemctl show`` with the given values and notes every call."""

    def __init__(self, shown: Optional[List[Dict[str, str]]] = None, rc: int = 0, err: str = "") -> None:
        self.shown, self.rc, self.err = list(shown or []), rc, err
        self.calls: List[List[str]] = []

    def __call__(self, argv: List[str], **_options: Any) -> Completed:
        self.calls.append(argv)
        if argv[1] == "show":
            shown = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
            return Completed(0, "".join(f"{key}={value}\n" for key, value in shown.items()), "")
        return Completed(self.rc, "", self.err)


def shown(
    active: str, sub: str, result: str = "success", restarts: str = "0", job: str = "0"
) -> Dict[str, str]:
    return {"ActiveState": active, "SubState": sub, "Result": result, "NRestarts": restarts, "Job": job}


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ([shown("deactivating", "stop-sigterm", job="7")], "pending"),
        ([shown("inactive", "dead", job="7")], "pending"),
        ([shown("failed", "failed", "exit-code", job="7")], "pending"),
        ([shown("activating", "start", job="7")], "pending"),
        ([shown("active", "running")], "up"),
        ([shown("failed", "failed", "exit-code")], "crash"),
        ([shown("inactive", "dead")], "crash"),
        ([shown("activating", "auto-restart", "signal")], "crash"),
        (
            [shown("activating", "start", restarts="1", job="7"), shown("active", "running", restarts="2")],
            "crash",
        ),
        (
            [shown("activating", "start", restarts="4", job="7"), shown("active", "running", restarts="0")],
            "up",
        ),
        ([shown("deactivating", "stop-sigterm", "timeout")], "hang"),
        ([shown("failed", "failed", "timeout")], "hang"),
        ([{"ActiveState": "active", "SubState": "running"}], "up"),
    ],
)
def test_the_state_of_a_unit_tells_start_crash_and_hang(states: List[Dict[str, str]], phase: str) -> None:
    unit = Unit("mariadb.service", Systemctl(states))
    assert [unit.state().phase for _ in states][-1] == phase


def test_a_unit_is_restarted_without_waiting() -> None:
    systemctl = Systemctl()
    Unit("mariadb.service", systemctl).restart()
    assert systemctl.calls == [["systemctl", "restart", "--no-block", "mariadb.service"]]


@pytest.mark.parametrize(
    "state", [shown("failed", "failed", "exit-code"), shown("inactive", "dead"), shown("failed", "failed")]
)
def test_a_unit_whose_script_lost_patience_is_not_a_crash_while_its_server_runs(
    state: Dict[str, str],
) -> None:
    unit = Unit("mysql.service", Systemctl([state]), runs=lambda: True)
    assert unit.state() == (
        "up",
        f"{Unit('mysql.service', Systemctl([state])).state().words}, but its server runs",
    )


def test_a_unit_shows_what_the_server_tells_systemd_while_it_starts() -> None:
    starting = dict(shown("activating", "start"), StatusText="To recover: LSN 1/2; 3 pages")
    running = dict(shown("active", "running"), StatusText="Taking your SQL requests now...")
    unit = Unit("mariadb.service", Systemctl([starting, running]))
    assert [unit.progress(), unit.progress()] == ["To recover: LSN 1/2; 3 pages", ""]


def test_a_masked_unit_is_refused_in_the_words_of_systemctl() -> None:
    systemctl = Systemctl(rc=1, err="Failed to restart mariadb.service: Unit mariadb.service is masked.\n")
    with pytest.raises(RestartError, match=r"systemctl restart mariadb.service: Failed to .* is masked\."):
        Unit("mariadb.service", systemctl).restart()


def test_killing_a_unit_stops_it_first_so_that_systemd_does_not_start_it_again() -> None:
    systemctl = Systemctl([shown("deactivating", "stop-sigterm"), shown("failed", "failed")])
    Unit("mariadb.service", systemctl).kill()
    assert [call[1] for call in systemctl.calls] == ["stop", "kill", "show", "kill", "show"]


def test_starts_of_before_do_not_count_against_the_limit_of_systemd() -> None:
    systemctl = Systemctl()
    unit = Unit("mariadb.service", systemctl)
    unit.prepare()
    unit.start()
    assert [call[1] for call in systemctl.calls] == ["reset-failed", "start"]


@pytest.mark.parametrize(
    ("launcher", "systemd", "expected"),
    [
        (UNIT, True, Unit),
        ({"kind": "mysqld_safe", "unit": "mysql.service", "init_script": "/etc/init.d/mysql"}, True, Unit),
        (
            {"kind": "mysqld_safe", "unit": "session-3.scope", "init_script": "/etc/init.d/mysql"},
            True,
            Script,
        ),
        ({"kind": "mysqld_safe", "unit": None, "init_script": "/etc/init.d/mysql"}, False, Script),
        ({"kind": "sysv", "unit": None, "init_script": "/etc/init.d/mysql"}, False, Script),
    ],
)
def test_the_launcher_is_what_really_starts_the_server(launcher: Any, systemd: bool, expected: Any) -> None:
    assert isinstance(launcher_of([instance(**launcher)], systemd=systemd), expected)


@pytest.mark.parametrize("launcher", [{"kind": "bare"}, {"kind": "mysqld_safe", "unit": "session-3.scope"}])
def test_a_server_that_nothing_would_start_again_is_refused(launcher: Any) -> None:
    with pytest.raises(
        RestartError, match=r"nothing would start it again after a stop\. Run it from a systemd unit"
    ):
        launcher_of([instance(**launcher)], systemd=True)


def script(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "init"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Script(str(path), [instance(kind="sysv")], systemd=False)


def wait_for(launcher: Launcher, phase: str) -> str:
    deadline = time.monotonic() + 10
    while launcher.state().phase != phase:
        assert time.monotonic() < deadline, launcher.state()
        time.sleep(0.01)
    return launcher.state().words


def test_an_init_script_that_fails_is_a_crash(tmp_path: Path) -> None:
    launcher = script(tmp_path, "exit 3")
    launcher.restart()
    assert "ended with exit status 3" in wait_for(launcher, "crash")


def test_an_init_script_that_leaves_no_server_is_a_crash(tmp_path: Path) -> None:
    launcher = script(tmp_path, "exit 0")
    launcher.start()
    assert wait_for(launcher, "crash").endswith("no server process is left")


def test_an_init_script_that_lost_patience_is_not_a_crash_while_its_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "tree", lambda _instance: [7])
    launcher = script(tmp_path, "exit 1")
    launcher.restart()
    assert wait_for(launcher, "up").endswith("ended with exit status 1")


def test_an_init_script_that_hangs_is_killed(tmp_path: Path) -> None:
    launcher = script(tmp_path, "sleep 600")
    launcher.restart()
    assert launcher.state().phase == "pending"
    launcher.kill()
    assert launcher.state().phase == "crash"


class Said(Launcher):
    restart = start = state = kill = lambda _self: None

    def __init__(self, *texts: str, told: Sequence[str] = ()) -> None:
        self.texts, self.told = list(texts), list(told)

    def progress(self) -> str:
        return self.told.pop(0) if self.told else ""

    def messages(self, since: float) -> str:  # noqa: ARG002
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


def test_the_most_telling_lines_are_quoted() -> None:
    log = Log(
        instance(**UNIT),
        Said(
            "Starting MariaDB...\n2026 [Note] hello\nERROR: ld.so: object '/x.so' cannot be preloaded\n[Note] bye\n"
        ),
    )
    assert log.words() == "ERROR: ld.so: object '/x.so' cannot be preloaded"


def test_a_frozen_log_says_no_more() -> None:
    log = Log(instance(**UNIT), Said("[ERROR] first", "[ERROR] second"))
    log.freeze()
    assert log.words() == "[ERROR] first"


def test_recovery_is_seen_only_while_new_lines_about_it_come() -> None:
    one = "InnoDB: Starting crash recovery from checkpoint\n"
    two = one + "InnoDB: To recover: 1312 pages\n"
    log = Log(instance(**UNIT), Said("Starting\n", one, one, two))
    assert [log.recovering() for _ in range(4)] == [False, True, False, True]


def test_recovery_is_over_when_the_server_says_that_it_is_ready() -> None:
    one = "InnoDB: Starting crash recovery from checkpoint\n"
    log = Log(instance(**UNIT), Said(one, one + "mariadbd: ready for connections.\n"))
    assert [log.recovering(), log.recovering()] == [True, False]


def test_what_the_server_tells_systemd_is_progress_as_often_as_it_changes() -> None:
    log = Log(instance(**UNIT), Said("Starting\n", told=["1 page", "1 page", "2 pages", ""]))
    assert [log.recovering() for _ in range(4)] == [True, False, True, False]


def test_between_its_lines_a_recovery_shows_in_what_the_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = iter([10, 20, 20])
    monkeypatch.setattr(restart, "find", lambda _instance: Process(7, 70))
    monkeypatch.setattr(restart, "bytes_moved", lambda _pid: next(moved))
    monkeypatch.setattr(restart, "output_file", lambda _pid: None)
    log = Log(instance(**UNIT), Said("InnoDB: Starting crash recovery from checkpoint\n"))
    assert [log.recovering() for _ in range(3)] == [True, True, False]


def test_a_server_without_recovery_makes_no_progress_whatever_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "find", lambda _instance: Process(os.getpid(), 70))
    monkeypatch.setattr(restart, "output_file", lambda _pid: None)
    log = Log(instance(**UNIT), Said("Starting\n"))
    assert not log.recovering()


@pytest.mark.parametrize(
    ("state", "busy"),
    [
        (shown("active", "running"), False),
        (shown("failed", "failed", "exit-code"), False),
        (shown("active", "running", job="7"), True),
        (shown("deactivating", "stop-sigterm"), True),
        ({}, True),
    ],
)
def test_a_unit_is_busy_while_a_job_waits_or_it_is_on_its_way(state: Dict[str, str], busy: bool) -> None:
    assert Unit("mariadb.service", Systemctl([state])).busy() is busy


def test_an_init_script_is_busy_while_it_runs(tmp_path: Path) -> None:
    launcher = script(tmp_path, "sleep 600")
    assert not launcher.busy()
    launcher.restart()
    assert launcher.busy()
    launcher.kill()
    assert not launcher.busy()
