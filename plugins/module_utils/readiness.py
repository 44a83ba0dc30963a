# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for a server: it is ready when it has answered a query, whatever its launcher says."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .restart import Launcher, Log, State
from .servers import Process, alive
from .sql import SqlError

TICK = 0.02
LOOK = 0.2
ASK_ANYWAY = 0.5
ASK_WITHOUT_SOCKET = 0.1
GRACE = 2.0
EXTENSION = 30.0
"""Seconds for which visible progress counts; MariaDB asks systemd for as many each time when it reports."""

Ping = Callable[[float], Optional[SqlError]]
"""Ask the server something within so many seconds; None if it answered, else what went wrong."""

REFUSALS = re.compile(r"ERROR (1820|1862)\b")
"""The account's password has expired: the server answers, and refuses."""


class Ready(NamedTuple):
    """How the wait ended: ``answered``, ``crash``, ``hang`` or ``not_restarted``.

    ``not_restarted``: the launcher has ended, and the old process still runs; nothing was killed.
    ``seconds`` are those since the wait's ``begin``. ``denied``: the server answered, but refused our account.
    """

    status: str
    seconds: float
    words: str = ""
    denied: bool = False


@dataclass
class Limits:
    """Seconds until the first answer after the old process has gone, and more while recovery proceeds."""

    start: float = 120.0
    recovery: float = 900.0
    stop: float = 1200.0


def mark_of(socket: Optional[str]) -> Optional[Tuple[int, int]]:
    """Return what tells one listening of a server from the next, None if there is no socket file."""
    try:
        status = os.stat(socket or "")
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


@dataclass
class Wait:
    """One wait for one start of one server; ``server`` finds its process, ``keeper`` tells of a mysqld_safe.

    The socket file is looked at every 20 ms, which costs next to nothing; the client is only run when the
    file is a new one (or now and then, should the file be elsewhere).
    """

    launcher: Launcher
    log: Log
    ping: Ping
    socket: Optional[str]
    old: Optional[Process]
    old_mark: Optional[Tuple[int, int]]
    begin: float
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    server: Callable[[], Optional[Process]] = lambda: None
    keeper: Callable[[], bool] = lambda: False
    tell: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._asked = self._looked = self._missing_since = self.clock()
        self._seen: Optional[Process] = None
        self._deadline: Optional[float] = None

    def poll(self) -> Optional[Ready]:
        """Look and ask once: return how the wait ended, None while it goes on."""
        now = self.clock()
        if self._deadline is None:
            if alive(self.old):
                return self._stopping(now)
            self._missing_since = now
            self._deadline = now + self.limits.start
            self._hard = self._deadline + self.limits.recovery
        ended = self._ask(self._deadline - now) or self._look(now)
        if ended or now < self._deadline:
            return ended
        if now >= self._hard or not self.log.recovering():
            return self._ended(State("hang", f"no answer within {now - self.begin:.0f} s"))
        self._deadline = min(now + EXTENSION, self._hard)
        return None

    def _stopping(self, now: float) -> Optional[Ready]:
        """Return why the old process does not go."""
        if now >= self.begin + self.limits.stop:
            words = f"the old process did not stop within {self.limits.stop:.0f} s"
            return self._ended(State("hang", words))
        return self._look_at_stop(now)

    def _look_at_stop(self, now: float) -> Optional[Ready]:
        """Look now and then whether the launcher has ended although the old process still runs."""
        if not self._due(now):
            return None
        self.tell()
        state = self.launcher.state()
        if state.phase == "pending":
            self._missing_since = now
        elif (state.phase != "up" or now - self._missing_since >= GRACE) and alive(self.old):
            return self._ended(State("not_restarted", f"{state.words}, but the old process still runs"))
        return None

    def _due(self, now: float) -> bool:
        if now - self._looked < LOOK:
            return False
        self._looked = now
        return True

    def _look(self, now: float) -> Optional[Ready]:
        """Look at launcher and processes now and then; return how the start failed, None while it did not."""
        if not self._due(now):
            return None
        self.tell()
        state = self.launcher.state()
        if state.phase in ("crash", "hang"):
            return self._ended(state)
        server = self.server()
        if self._seen and server and server != self._seen and not alive(self._seen):
            words = f"process {self._seen.pid} ended and was started again as {server.pid}"
            return self._ended(State("crash", words))
        self._seen = server or self._seen
        if server or self.keeper() or state.phase != "up":
            self._missing_since = now
        elif now - self._missing_since >= GRACE:
            return self._ended(State("crash", f"{state.words}, but no server process is left"))
        return None

    def _ask(self, left: float) -> Optional[Ready]:
        """Ask if the socket is a new one, or if the last time was long ago."""
        pause = ASK_ANYWAY if self.socket else ASK_WITHOUT_SOCKET
        if mark_of(self.socket) in (None, self.old_mark) and self.clock() - self._asked < pause:
            return None
        error = self.ping(max(min(left, 5.0), 1.0))
        self._asked = self.clock()
        seconds = self._asked - self.begin
        if error is None:
            return Ready("answered", seconds)
        if denied(error):
            return Ready("answered", seconds, "it answers, but refuses our account", denied=True)
        return None

    def _ended(self, state: State) -> Ready:
        return Ready(state.phase, self.clock() - self.begin, state.words)


def until_answered(waits: Sequence[Wait]) -> List[Ready]:
    """Wait for servers that one launcher starts together; return how each wait ended."""
    ended: Dict[int, Ready] = {}
    while True:
        for index, wait in enumerate(waits):
            ready = None if index in ended else wait.poll()
            if ready:
                ended[index] = ready
        if len(ended) == len(waits):
            return [ended[index] for index in range(len(waits))]
        waits[0].sleep(TICK)


def unsettled(
    launcher: Launcher, server: Callable[[], Optional[Process]], expected: Optional[Process]
) -> Optional[str]:
    """Look once whether a server that has answered is still the same process; return what went wrong."""
    state = launcher.state()
    if state.phase in ("crash", "hang"):
        return state.words
    now = server()
    if now is None or (expected and now != expected):
        return f"process {expected.pid if expected else '?'} ended soon after its first answer"
    return None


def settle(
    look: Callable[[], Optional[str]],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Optional[str]:
    """Look again and again for some seconds, at least once; return what a look found wrong, None for nothing."""
    limit = clock() + seconds
    while True:
        problem = look()
        if problem or clock() >= limit:
            return problem
        sleep(min(LOOK, seconds) or TICK)


def denied(error: SqlError) -> bool:
    """Tell whether the server answered with a refusal of the account: it is up, only we may not ask."""
    return error.kind == "access_denied" or bool(REFUSALS.search(error.message))
