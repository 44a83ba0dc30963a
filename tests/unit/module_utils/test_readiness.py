# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for a server, on a clock that only moves when somebody sleeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.readiness import (
    EXTENSION,
    Limits,
    Ready,
    Wait,
    denied,
    mark_of,
    settle,
    unsettled,
    until_answered,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.restart import Launcher, State
from ansible_collections.fleet.mysqltune.plugins.module_utils.servers import Process, identify
from ansible_collections.fleet.mysqltune.plugins.module_utils.sql import SqlError

REFUSED = SqlError("cannot_connect", "ERROR 2002: no socket")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Scripted(Launcher):
    """A launcher whose state is a function of the time."""

    restart = start = kill = lambda _self: None

    def __init__(self, state: Callable[[float], State], clock: Clock) -> None:
        self._state, self._clock = state, clock

    def state(self) -> State:
        return self._state(self._clock())


class Recovery:
    """A log in which a recovery reports every so many seconds until a moment."""

    def __init__(self, clock: Clock, until: float, every: float = 16.0) -> None:
        self._clock, self._until, self._every = clock, until, every
        self._seen = -1.0

    def recovering(self) -> bool:
        before, self._seen = self._seen, min(self._clock(), self._until) // self._every
        return self._until > 0 and self._seen > before


class Scene:
    """A server that listens at ``listens`` and answers at ``answers``."""

    def __init__(
        self, directory: Path, listens: float = 1.0, answers: float = 1.0, recovers: float = 0.0
    ) -> None:
        self.clock = Clock()
        self.socket = directory / "socket"
        self.listens, self.answers = listens, answers
        self.asked: List[float] = []
        self.phase: Callable[[float], State] = lambda _now: State("pending")
        self.process: Callable[[float], Optional[Process]] = lambda _now: Process(7, 70)
        self.error: Optional[SqlError] = None
        self.recovery: Any = Recovery(self.clock, recovers)

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        if self.clock() >= self.listens and not self.socket.exists():
            self.socket.touch()

    def ping(self, _timeout: float) -> Optional[SqlError]:
        self.asked.append(self.clock())
        return self.error if self.clock() >= max(self.answers, self.listens) else REFUSED

    def wait(self, **limits: float) -> Ready:
        wait = Wait(
            launcher=Scripted(self.phase, self.clock),
            log=self.recovery,
            ping=self.ping,
            socket=str(self.socket),
            old=None,
            old_mark=None,
            begin=0.0,
            limits=Limits(**{"start": 10.0, "recovery": 100.0, **limits}),
            clock=self.clock,
            sleep=self.sleep,
            server=lambda: self.process(self.clock()),
        )
        return until_answered([wait])[0]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_it_is_ready_when_it_answers_and_asked_at_once_when_it_listens(scene: Scene) -> None:
    ready = scene.wait()
    assert ready.status == "answered" and ready.seconds == pytest.approx(1.0, abs=0.05)
    assert len(scene.asked) <= 3


def test_a_refused_account_counts_as_an_answer(scene: Scene) -> None:
    scene.error = SqlError("access_denied", "ERROR 1045: Access denied")
    ready = scene.wait()
    assert (ready.status, ready.denied) == ("answered", True)


def test_too_many_connections_is_no_answer(scene: Scene) -> None:
    scene.error = SqlError("statement", "ERROR 1040: Too many connections")
    assert scene.wait().status == "hang"


def test_a_server_that_never_answers_hangs_at_the_deadline(scene: Scene) -> None:
    scene.answers = 1e9
    ready = scene.wait()
    assert ready == Ready("hang", ready.seconds, "no answer within 10 s")
    assert ready.seconds == pytest.approx(10.0, abs=0.1)


def test_visible_recovery_extends_the_deadline(tmp_path: Path) -> None:
    scene = Scene(tmp_path, listens=95.0, answers=95.0, recovers=95.0)
    assert scene.wait().status == "answered"


def test_recovery_that_stands_still_does_not(tmp_path: Path) -> None:
    scene = Scene(tmp_path, listens=95.0, answers=95.0, recovers=20.0)
    ready = scene.wait()
    assert ready.status == "hang" and 20.0 < ready.seconds < 20.0 + 2 * EXTENSION


def test_even_visible_recovery_has_an_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, listens=1e9, recovers=1e9)
    assert scene.wait().seconds == pytest.approx(110.0, abs=0.2)


@pytest.mark.parametrize("phase", ["crash", "hang"])
def test_what_the_launcher_says_ends_the_wait(scene: Scene, phase: str) -> None:
    scene.listens = 1e9
    scene.phase = lambda now: State(phase if now > 0.5 else "pending", "words")
    ready = scene.wait()
    assert (ready.status, ready.words) == (phase, "words") and ready.seconds < 1.0


def test_a_server_that_is_started_again_by_mysqld_safe_has_crashed(scene: Scene) -> None:
    scene.listens = 1e9
    scene.process = lambda now: Process(7, 70) if now < 2 else Process(8, 80)
    ready = scene.wait()
    assert (ready.status, ready.words) == ("crash", "process 7 ended and was started again as 8")


def test_a_launcher_that_is_up_without_a_server_has_crashed(scene: Scene) -> None:
    scene.listens = 1e9
    scene.phase = lambda _now: State("up", "the unit is active")
    scene.process = lambda _now: None
    ready = scene.wait()
    assert (ready.status, ready.words) == ("crash", "the unit is active, but no server process is left")


def test_the_deadline_begins_when_the_old_process_has_gone(scene: Scene) -> None:
    scene.listens = 15.0
    scene.answers = 15.0
    pid = os.fork()
    if pid == 0:
        os.read(os.pipe()[0], 1)
    old = identify(pid)

    def sleep(seconds: float) -> None:
        if scene.clock() < 8.0 <= scene.clock() + seconds:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        scene.sleep(seconds)

    wait = Wait(
        Scripted(lambda _now: State("pending"), scene.clock),
        scene.recovery,
        scene.ping,
        str(scene.socket),
        old,
        None,
        0.0,
        Limits(10.0, 0.0),
        scene.clock,
        sleep,
        lambda: Process(9, 90),
    )
    assert until_answered([wait])[0].status == "answered"
    assert scene.asked[0] > 8.0


def test_an_old_process_that_does_not_stop_is_a_hang(scene: Scene) -> None:
    wait = Wait(
        Scripted(lambda _now: State("pending"), scene.clock),
        scene.recovery,
        scene.ping,
        str(scene.socket),
        identify(os.getpid()),
        None,
        0.0,
        Limits(10.0, 0.0, stop=5.0),
        scene.clock,
        scene.sleep,
    )
    assert until_answered([wait])[0] == Ready(
        "hang", pytest.approx(5.0, abs=0.1), "the old process did not stop within 5 s"
    )
    assert scene.asked == []


def test_a_new_socket_has_another_mark(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert mark_of(str(path)) is None and mark_of(None) is None
    path.touch()
    first = mark_of(str(path))
    path.unlink()
    os.utime(tmp_path)
    (tmp_path / "other").touch()
    path.touch()
    assert first is not None and mark_of(str(path)) != first


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("access_denied", "ERROR 1698: Access denied", True),
        ("statement", "ERROR 1820: You must reset your password", True),
        ("cannot_connect", "ERROR 2002: Can't connect", False),
        ("timeout", "no answer within 5 s", False),
    ],
)
def test_only_a_refused_account_is_an_answer(kind: str, message: str, expected: bool) -> None:
    assert denied(SqlError(kind, message)) is expected


def watch(process: Callable[[float], Optional[Process]], state: Callable[[float], State]) -> Optional[str]:
    clock = Clock()
    launcher = Scripted(state, clock)
    return settle(
        lambda: unsettled(launcher, lambda: process(clock()), Process(7, 70)), 3.0, clock, clock.sleep
    )


def test_a_server_that_stays_is_settled() -> None:
    assert watch(lambda _now: Process(7, 70), lambda _now: State("up")) is None


def test_a_server_that_ends_while_it_settles_is_said() -> None:
    said = watch(lambda now: Process(7, 70) if now < 2 else None, lambda _now: State("up"))
    assert said == "process 7 ended soon after its first answer"


def test_a_crash_that_the_launcher_sees_while_it_settles_is_said() -> None:
    assert watch(lambda _now: Process(7, 70), lambda now: State("crash" if now > 1 else "up", "why")) == "why"


@pytest.mark.parametrize(("phase", "after"), [("crash", 0.2), ("up", 2.2)])
def test_a_launcher_that_ended_while_the_old_process_lives_has_not_restarted_it(
    scene: Scene, phase: str, after: float
) -> None:
    wait = Wait(
        Scripted(lambda _now: State(phase, "it ended"), scene.clock),
        scene.recovery,
        scene.ping,
        str(scene.socket),
        identify(os.getpid()),
        None,
        0.0,
        Limits(10.0, 0.0),
        scene.clock,
        scene.sleep,
    )
    ready = until_answered([wait])[0]
    assert (ready.status, ready.words) == ("not_restarted", "it ended, but the old process still runs")
    assert ready.seconds == pytest.approx(after, abs=0.3) and scene.asked == []


def test_servers_of_one_launcher_are_waited_for_together(tmp_path: Path) -> None:
    clock, phases = Clock(), Scripted(lambda _now: State("up"), Clock())
    waits = []
    for name, answers in (("a", 3.0), ("b", 1.0)):
        (tmp_path / name).mkdir()
        scene = Scene(tmp_path / name, listens=answers, answers=answers)
        scene.clock = clock
        waits.append(
            Wait(
                phases,
                scene.recovery,
                scene.ping,
                str(scene.socket),
                None,
                None,
                0.0,
                Limits(10.0, 0.0),
                clock,
                clock.sleep,
                lambda: Process(7, 70),
            )
        )
    assert [round(ready.seconds) for ready in until_answered(waits)] == [3, 1]
