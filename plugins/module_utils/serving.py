# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers of one host in the hands of a detached program: restarted, asked, brought back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .command import Completed
from .command import run as run_command
from .lease import take
from .readiness import Limits, Ping, Ready, Wait, mark_of, until_answered
from .restart import Launcher, Log, RestartError, kill_tree, launchers
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

    new: Optional[Process] = None
    """The process that was proved after its restart."""

    broken: bool = False
    """It crashed or hangs: kill it rather than ask it to stop."""

    @classmethod
    def of(cls, instance: Instance, launcher: Optional[Launcher]) -> Server:
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
        return cls(instance, launcher, identify(instance.pid), result)


class Host:
    """What both programs need: the servers, the lease, the restart of servers until they answer."""

    def __init__(self, spec: Mapping[str, Any], run: RunCommand = run_command) -> None:
        self.spec = spec
        self.run = run
        self.run_id, self.root = str(spec["run_id"]), str(spec["root"])
        self.limits = Limits(float(spec.get("timeout", 120)), float(spec.get("recovery", 900)))
        instances = [Instance.of(observed) for observed in spec["instances"]]
        known = launchers(instances, run)
        self.servers = [Server.of(instance, known.get(instance.name)) for instance in instances]
        self._renewed = 0.0

    @property
    def running(self) -> List[Server]:
        return [server for server in self.servers if not server.instance.stopped]

    def renew(self) -> None:
        """Renew the lease now and then; a long wait must not lose it."""
        if time.monotonic() - self._renewed >= RENEW_EVERY:
            self._renewed = time.monotonic()
            with_room([run_directory(self.run_id, self.root)], lambda: take(self.run_id, self.root))

    def restart(self, group: List[Server], start_only: bool = False) -> List[Ready]:
        """Restart the servers of one launcher and wait for their answers. Nothing stands between stop and wait."""
        launcher = required(group[0].launcher)
        for server in group:
            server.log = Log(server.instance, launcher)
        marks = [mark_of(server.instance.socket) for server in group]
        launcher.prepare()
        begin = time.monotonic()
        for server in group:
            server.touched = begin if server.touched is None else server.touched
        (launcher.start if start_only else launcher.restart)()
        answers = until_answered([self._wait(*each, begin) for each in zip(group, marks)])
        return [self._judged(*each) for each in zip(group, answers)]

    def _wait(self, server: Server, old_mark: Optional[Tuple[int, int]], begin: float) -> Wait:
        instance, launcher, log = server.instance, required(server.launcher), server.log
        assert log is not None
        wait = Wait(
            launcher, log, self.ping(instance), instance.socket, server.old, old_mark, begin, self.limits
        )
        wait.server = lambda: find(instance)
        wait.keeper = lambda: bool(tree(instance))
        wait.tell = self.renew
        return wait

    def _judged(self, server: Server, ready: Ready) -> Ready:
        server.broken = ready.status not in ("answered", "not_restarted")
        if ready.denied and server.instance.reachable:
            return ready._replace(words=f"{ready.words}, although it did not before the restart")
        return ready

    def kill(self, servers: List[Server]) -> None:
        """End the broken ones among these; a launcher only if nothing that it started is sound."""
        for group in together(servers):
            broken = [server for server in group if server.broken]
            if len(broken) == len(group):
                required(group[0].launcher).kill()
                continue
            for server in broken:
                kill_tree(server.instance)

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
        for group in sorted(together(servers), key=lambda one: not any(server.broken for server in one)):
            for server, problem in zip(group, self._bring_back(group)):
                if problem:
                    server.result.update(state="restore_failed", message=problem, new_pid=None)
                    failed.append(problem)
        return failed

    def _bring_back(self, group: List[Server]) -> List[Optional[str]]:
        start_only = all(server.broken for server in group)
        for server in group:
            server.old = find(server.instance)
        try:
            answers = self.restart(group, start_only)
        except RestartError as error:
            text = "{} could not be started again on the old state: {}"
            return [text.format(server.instance.name, error) for server in group]
        return [self._brought_back(*each) for each in zip(group, answers)]

    def _brought_back(self, server: Server, ready: Ready) -> Optional[str]:
        if ready.status != "answered":
            said = server.log.words() if server.log else ""
            name = server.instance.name
            return f"{name} does not run on the old state ({ready.status}): {ready.words}. It said: {said}"
        now = find(server.instance)
        down = time.monotonic() - (server.touched or 0.0)
        server.result.update(state="restored", new_pid=now.pid if now else None, downtime=round(down, 3))
        return None


def together(servers: Sequence[Server]) -> List[List[Server]]:
    """Return the servers by launcher, in their order: each list is restarted as one."""
    groups: Dict[int, List[Server]] = {}
    for server in servers:
        groups.setdefault(id(required(server.launcher)), []).append(server)
    return list(groups.values())


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
