# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction: restart each server on what a run staged, prove it, and commit; or put everything back.

Its program runs detached (``detached``), whether or not anybody listens. All instances of a host are one
transaction. Spec and result stand in the run's directory; the journal has the decision.
"""

from __future__ import annotations

import fcntl
import os
import sys
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional

from .durable import read_json, write_json
from .evidence import LEVELS, collect, judge
from .lease import JournalError, release
from .readiness import denied, settle
from .restart import RestartError
from .rollback import Undoing
from .room import with_room
from .runlog import RESULTS, SPECS, Run, append, load, program_lock, run_directory
from .servers import alive, find, identify
from .serving import Host, Record, Server, required, result_of
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
            for server in self.running:
                self._check(server)
            for server in self.running:
                self._activate(server)
        except Failure as failure:
            return self._restore(failure)
        except Exception as error:  # the servers come first, whatever went wrong here
            traceback.print_exc()
            return self._restore(Failure("internal", f"the transaction broke off: {error!r}"))
        return self._finish("committed", None, self._committed())

    def _committed(self) -> str:
        proved = [server.instance.name for server in self.running]
        return f"{', '.join(proved)}: restarted and proved" if proved else "no server runs, none was started"

    def _check(self, server: Server) -> None:
        """The server must still run and answer; one that was restarted meanwhile is restarted once more."""
        now = find(server.instance)
        if now is None:
            seen = f"{server.instance.name} (pid {server.instance.pid})"
            raise Failure("stopped", f"{seen} ran when it was observed, but is stopped now; it was left so")
        error = self.ping(server.instance)(10.0)
        if error and not denied(error):
            text = f"{server.instance.name} does not answer queries already before a restart: {error.message}"
            raise Failure("no_answer", text)
        server.old = now
        server.result["old_pid"] = now.pid

    def _activate(self, server: Server) -> None:
        self.renew()
        name = server.instance.name
        try:
            ready = self.restart(server)
        except RestartError as error:
            self._spare_untouched(server)
            raise Failure("launcher_mismatch", f"{name} could not be restarted: {error}") from error
        server.result["downtime"] = round(ready.seconds, 3)
        if ready.status != "answered":
            if ready.status == "not_restarted":
                self._spare_untouched(server)
            what = f"{NOT_READY[ready.status]} with {_wanted(server)} ({ready.words})"
            raise Failure(ready.status, f"{name} {what}")
        self._prove(server)
        self._settle(server)
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
        server.result["new_pid"] = now.pid
        level, reason = judge(collect(now.pid), server.instance.library)
        server.result.update(level=level, reason=reason)
        if LEVELS.index(level) < LEVELS.index(self.spec.get("expect") or "effective"):
            because = f" ({reason})" if reason else ""
            text = f"{server.instance.name} runs, but {_wanted(server)} is only {level}{because}"
            raise Failure(reason or level, text)

    def _settle(self, server: Server) -> None:
        expected = identify(server.result["new_pid"])
        launcher = required(server.launcher)
        problem = settle(launcher, lambda: find(server.instance), expected, float(self.spec.get("settle", 3)))
        if problem is None:
            error = self.ping(server.instance)(5.0)
            problem = (
                None if error is None or denied(error) else f"it does not answer any more: {error.message}"
            )
        if problem:
            server.broken = True
            raise Failure(
                "crash", f"{server.instance.name} did not stay up with {_wanted(server)}: {problem}"
            )

    def _restore(self, failure: Failure) -> Record:
        """Kill what is broken, put every file back, restart what was restarted, verify."""
        touched = [server for server in self.running if server.touched is not None]
        for server in touched:
            if server.log:
                server.log.freeze()
            if server.broken:
                required(server.launcher).kill()
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


def _wanted(server: Server) -> str:
    return server.instance.library or "the allocator of the system"


PROGRAMS: Dict[str, Callable[[Mapping[str, Any]], Any]] = {"activate": Activation, "undo": Undoing}


def main(argv: List[str]) -> int:
    """Run ``activate`` or ``undo`` in a run's directory: ``program.pyz <action> <root> <run_id>``."""
    action, root, run_id = argv
    lock = os.open(program_lock(run_id, root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"another program of run {run_id} is at work", file=sys.stderr)
        return 3
    _log_to(os.path.join(run_directory(run_id, root), LOG))
    spec = read_json(os.path.join(run_directory(run_id, root), SPECS[action]))
    result = PROGRAMS[action](spec).perform()
    return 0 if result["state"] in ("committed", "restored") else 1


def _log_to(path: str) -> None:
    """Let everything that is printed, a traceback too, end in the run's directory."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
