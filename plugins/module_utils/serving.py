# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers of one host in the hands of a detached program: restarted, asked, brought back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional

from .command import Completed
from .command import run as run_command
from .lease import take
from .readiness import Limits, Ping, Ready, Wait, mark_of
from .restart import Launcher, Log, RestartError, launcher_of
from .room import with_room
from .runlog import run_directory
from .servers import Instance, Process, find, identify, tree
from .sql import Sql, SqlError

Record = Dict[str, Any]
RunCommand = Callable[..., Completed]
RENEW_EVERY = 60.0


@dataclass
class Server:
    """One instance at work: its launcher, what it said, and its part of the result."""

    instance: Instance
    launcher: Optional[Launcher]
    old: Optional[Process]
    result: Record
    log: Optional[Log] = None
    touched: Optional[float] = None
    """When its stop was issued (monotonic), None if it was not restarted."""

    broken: bool = False
    """It crashed or hangs: kill it rather than ask it to stop."""

    @classmethod
    def of(cls, observed: Mapping[str, Any], run: RunCommand) -> Server:
        instance = Instance.of(observed)
        result = {
            "name": instance.name,
            "state": "stopped" if instance.stopped else "restored",
            "level": None,
            "reason": None,
            "message": "it was stopped and stays stopped" if instance.stopped else "not restarted",
            "downtime": 0.0,
            "old_pid": instance.pid,
            "new_pid": instance.pid,
        }
        launcher = None if instance.stopped else launcher_of(instance, run)
        return cls(instance, launcher, identify(instance.pid), result)


class Host:
    """What both programs need: the servers, the lease, the restart of one server until it answers."""

    def __init__(self, spec: Mapping[str, Any], run: RunCommand = run_command) -> None:
        self.spec = spec
        self.run = run
        self.run_id, self.root = str(spec["run_id"]), str(spec["root"])
        self.limits = Limits(float(spec.get("timeout", 120)), float(spec.get("recovery", 900)))
        self.servers = [Server.of(observed, run) for observed in spec["instances"]]
        self._renewed = 0.0

    @property
    def running(self) -> List[Server]:
        return [server for server in self.servers if not server.instance.stopped]

    def renew(self) -> None:
        """Renew the lease now and then; a long wait must not lose it."""
        if time.monotonic() - self._renewed >= RENEW_EVERY:
            self._renewed = time.monotonic()
            with_room([run_directory(self.run_id, self.root)], lambda: take(self.run_id, self.root))

    def restart(self, server: Server, start_only: bool = False) -> Ready:
        """Restart one server and wait for its answer. Nothing stands between the stop and the wait."""
        launcher, instance = required(server.launcher), server.instance
        old, old_mark = server.old, mark_of(instance.socket)
        server.log = Log(instance, launcher)
        launcher.prepare()
        begin = time.monotonic()
        if server.touched is None:
            server.touched = begin
        (launcher.start if start_only else launcher.restart)()
        wait = Wait(
            launcher, server.log, self.ping(instance), instance.socket, old, old_mark, begin, self.limits
        )
        wait.server = lambda: find(instance)
        wait.keeper = lambda: bool(tree(instance))
        wait.tell = self.renew
        ready = wait.until_answered()
        if ready.denied and instance.reachable:
            ready = ready._replace(words=f"{ready.words}, although it did not before the restart")
        server.broken = ready.status not in ("answered", "not_restarted")
        return ready

    def ping(self, instance: Instance) -> Ping:
        """Return how to ask this instance a query."""
        sql = Sql(instance.client, instance.socket, self.spec.get("defaults_file"), run=self.run)

        def ask(timeout: float) -> Optional[SqlError]:
            try:
                sql.query("SELECT 1", timeout)
            except SqlError as error:
                return error
            return None

        return ask

    def bring_back(self, servers: List[Server]) -> List[str]:
        """Let these servers run on the old state, those that are down first; return what failed."""
        failed = []
        for server in sorted(servers, key=lambda one: not one.broken):
            problem = self._bring_back(server)
            if problem:
                server.result.update(state="restore_failed", message=problem, new_pid=None)
                failed.append(problem)
        return failed

    def _bring_back(self, server: Server) -> Optional[str]:
        name, start_only = server.instance.name, server.broken
        server.old = find(server.instance)
        try:
            ready = self.restart(server, start_only)
        except RestartError as error:
            return f"{name} could not be started again on the old state: {error}"
        if ready.status != "answered":
            said = server.log.words() if server.log else ""
            return f"{name} does not run on the old state ({ready.status}): {ready.words}. It said: {said}"
        now = find(server.instance)
        down = time.monotonic() - (server.touched or 0.0)
        server.result.update(state="restored", new_pid=now.pid if now else None, downtime=round(down, 3))
        return None


def required(launcher: Optional[Launcher]) -> Launcher:
    """Return the launcher of a server that runs."""
    if launcher is None:
        raise RestartError("a stopped server is left stopped")
    return launcher


def result_of(host: Host, state: str, reason: Optional[str], message: str) -> Record:
    """Return what a program writes down at its end."""
    return {
        "run_id": host.run_id,
        "state": state,
        "reason": reason,
        "message": message,
        "instances": [server.result for server in host.servers],
        "ended": time.time(),
    }
