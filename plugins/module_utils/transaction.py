# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction: restart each server on what a run staged, prove it, and commit; or put everything back.

Its program runs detached (``detached``), whether or not anybody listens. All instances of a host are one
transaction. Spec and result stand in the run's directory; the journal has the decision.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional

from .durable import read_json, write_json
from .evidence import LEVELS, collect, judge
from .lease import JournalError, release
from .readiness import denied, settle, unsettled
from .restart import RestartError
from .rollback import Undoing
from .room import with_room
from .runlog import RESULTS, SPECS, Run, append, load, program_lock, run_directory
from .servers import alive, find, strangers
from .serving import Host, Record, Server, required, result_of, together
from .undo import mark, undo_runs

LOG = "program.log"
NOT_READY = {
    "crash": "crashed when it was restarted",
    "hang": "hung when it was restarted",
    "not_restarted": "was not restarted",
}


class Failure(Exception):
    """Why the transaction does not commit: a reason code and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Activation(Host):
    """Restart each server once on what the run staged, prove it, commit; or put everything back."""

    def perform(self) -> Record:
        self.journal("activating")
        try:
            for group in together(self.running):
                self._check(group)
            for group in together(self.running):
                self._activate(group)
        except Failure as failure:
            return self._restore(failure)
        except Exception as error:  # the servers come first, whatever went wrong here
            traceback.print_exc()
            return self._restore(Failure("internal", f"the transaction broke off: {error!r}"))
        return self._finish("committed", None, self._committed())

    def _committed(self) -> str:
        return (
            f"{_names(self.running)}: restarted and proved"
            if self.running
            else "no server runs, none was started"
        )

    def _check(self, group: List[Server]) -> None:
        """Each server must still run and answer; one that was restarted meanwhile is restarted once more."""
        for server in group:
            now = find(server.instance)
            if now is None:
                seen = f"{server.instance.name} (pid {server.instance.pid})"
                raise Failure(
                    "stopped", f"{seen} ran when it was observed, but is stopped now; it was left so"
                )
            error = self.ping(server.instance)(10.0)
            if error and not denied(error):
                text = f"{server.instance.name} does not answer queries already before a restart: {error.message}"
                raise Failure("no_answer", text)
            server.old = now
            server.result["old_pid"] = now.pid
        unit = group[0].instance.service
        others = strangers(unit, [server.instance for server in group]) if unit else []
        if others:
            pids = ", ".join(map(str, others))
            raise Failure(
                "launcher_mismatch", f"{unit} would also restart the server with pid {pids}, unasked"
            )

    def _activate(self, group: List[Server]) -> None:
        self.renew()
        try:
            answers = self.restart(group)
        except RestartError as error:
            for server in group:
                self._spare_untouched(server)
            text = f"{_names(group)} could not be restarted: {error}"
            raise Failure("launcher_mismatch", text) from error
        for server, ready in zip(group, answers):
            server.result["downtime"] = round(ready.seconds, 3)
            if ready.status == "not_restarted":
                self._spare_untouched(server)
        for server, ready in zip(group, answers):
            if ready.status != "answered":
                what = f"{NOT_READY[ready.status]} with {_wanted(server)} ({ready.words})"
                raise Failure(ready.status, f"{server.instance.name} {what}")
        for server in group:
            self._prove(server)
        self._settle(group)
        for server, ready in zip(group, answers):
            server.result.update(state="committed", message=ready.words)

    def _spare_untouched(self, server: Server) -> None:
        """Leave the server alone from now on if nothing came of its restart, and nothing will."""
        if not alive(server.old) or required(server.launcher).busy():
            return
        error = self.ping(server.instance)(10.0)
        if alive(server.old) and (error is None or denied(error)):
            server.touched = None
            server.result["downtime"] = 0.0

    def _prove(self, server: Server) -> None:
        now = find(server.instance)
        if now is None:
            server.broken = True
            raise Failure("crash", f"{server.instance.name} answered once and was gone")
        server.new = now
        server.result["new_pid"] = now.pid
        facts = collect(now.pid)
        level, reason = judge(facts, server.instance.library)
        server.result.update(level=level, reason=reason)
        if LEVELS.index(level) < LEVELS.index(self.spec.get("expect") or "effective"):
            because = f" ({reason})" if reason else ""
            text = f"{server.instance.name} runs, but {_wanted(server)} is only {level}{because}"
            raise Failure(reason or level, text)
        lost = [
            name
            for name, value in server.instance.environment.items()
            if facts["variables"].get(name) != value
        ]
        if lost:
            server.result.update(level="delivered", reason="overridden")
            text = f"{server.instance.name} runs, but something sets another {', '.join(lost)} after us"
            raise Failure("overridden", text)

    def _settle(self, group: List[Server]) -> None:
        seconds = float(self.spec.get("settle", 3))
        problem = settle(lambda: self._first(group, _unsettled), seconds) or self._first(group, self._silent)
        if problem:
            raise Failure("crash", problem)

    def _first(self, group: List[Server], look: Callable[[Server], Optional[str]]) -> Optional[str]:
        """Return what is wrong with the first server that a look finds broken."""
        for server in group:
            problem = look(server)
            if problem:
                server.broken = True
                return f"{server.instance.name} did not stay up with {_wanted(server)}: {problem}"
        return None

    def _silent(self, server: Server) -> Optional[str]:
        error = self.ping(server.instance)(5.0)
        if error is None or denied(error):
            return None
        return f"it does not answer any more: {error.message}"

    def _restore(self, failure: Failure) -> Record:
        """Kill what is broken, put every file back, restart what was restarted, verify."""
        touched = [server for server in self.running if server.touched is not None]
        for server in touched:
            if server.log:
                server.log.freeze()
        self.kill(touched)
        said = [server.log.words() for server in touched if server.log and server.broken]
        problems = self._files_back()
        problems += self.bring_back(touched)
        message = failure.message + (f". It said: {said[0]}" if said and said[0] else "")
        for server in touched:
            if server.result["state"] == "restored":
                server.result["message"] = "runs on the old state again"
                server.result["reason"] = server.result["reason"] or failure.reason
        if problems:
            text = f"{message}. RESTORE FAILED: {'; '.join(problems)}. Look at this host now"
            return self._finish("restore_failed", failure.reason, text)
        return self._finish("restored", failure.reason, f"{message}. Everything was put back")

    def _files_back(self) -> List[str]:
        own = load(self.run_id, self.root)
        try:
            outcome = undo_runs([own] if own else [], self.run, final=False, own_program=True)
        except (JournalError, OSError) as error:
            return [str(error)]
        return outcome.refused

    def journal(self, state: str, message: str = "", reason: str = "") -> None:
        own = load(self.run_id, self.root)
        if own:
            mark(own, state, message, reason)

    def _finish(self, state: str, reason: Optional[str], message: str) -> Record:
        """Write the result down, then the decision; give the lease back unless the run goes on."""
        result = result_of(self, state, reason, message)
        own = Run(self.run_id, self.root)
        append(own, {"op": "note", "facts": {"activation": result}})
        self.journal(state, message, reason or "")
        if state != "committed":
            release(self.run_id, self.root)
        with_room(
            [own.directory], lambda: write_json(os.path.join(own.directory, RESULTS["activate"]), result)
        )
        return result


def _unsettled(server: Server) -> Optional[str]:
    return unsettled(required(server.launcher), lambda: find(server.instance), server.new)


def _names(group: List[Server]) -> str:
    return ", ".join(server.instance.name for server in group)


def _wanted(server: Server) -> str:
    return server.instance.library or "the allocator of the system"


PROGRAMS: Dict[str, Callable[[Mapping[str, Any]], Any]] = {"activate": Activation, "undo": Undoing}


def main(argv: List[str]) -> int:
    """Run ``activate`` or ``undo`` in a run's directory: ``program.pyz <action> <root> <run_id>``."""
    action, root, run_id = argv
    lock = os.open(program_lock(run_id, root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _taken(lock):
        print(f"another program of run {run_id} is at work", file=sys.stderr)
        return 3
    _log_to(os.path.join(run_directory(run_id, root), LOG))
    spec = read_json(os.path.join(run_directory(run_id, root), SPECS[action]))
    result = PROGRAMS[action](spec).perform()
    return 0 if result["state"] in ("committed", "restored") else 1


def _taken(lock: int, patience: float = 2.0) -> bool:
    """Take the lock that tells that the program runs; whoever asks whether it runs holds it for a moment."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.01)


def _log_to(path: str) -> None:
    """Let everything that is printed, a traceback too, end in the run's directory."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
