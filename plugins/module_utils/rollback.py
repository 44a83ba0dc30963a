# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo runs that were activated: files back, then the servers restarted that may run on them."""

from __future__ import annotations

import os
from typing import List

from .durable import write_json
from .lease import JournalError, boot_id, release
from .readiness import denied
from .room import with_room
from .runlog import RESULTS, UNFINISHED, Run, load, run_directory
from .servers import find, started_since
from .serving import Host, Record, Server, result_of, together
from .undo import Outcome, mark, undo_runs


class Undoing(Host):
    """Put the files of some runs back and restart the servers that may have been started from them."""

    def perform(self) -> Record:
        """Return the result; ``files`` says what was done to each file."""
        loaded = [load(run_id, self.root) for run_id in self.spec["undo"]]
        order = [run for run in loaded if run]
        restarted = {id(server.launcher) for server in self.running if self._affected(server, order)}
        affected = [server for server in self.running if id(server.launcher) in restarted]
        outcome = Outcome()
        problems = []
        try:
            outcome = undo_runs(order, self.run, final=False, own_program=True)
            problems = list(outcome.refused)
        except (JournalError, OSError) as error:
            problems = [str(error)]
        for server in affected:
            self._look(server)
        self.kill(affected)
        for group in together(affected):
            if not problems or any(server.broken for server in group):
                problems += self.bring_back(group)
        return self._finish(order, outcome, affected, problems)

    def _affected(self, server: Server, order: List[Run]) -> bool:
        """Tell whether the server may run on what the runs staged, or is down because of it."""
        now = find(server.instance)
        if now is None:
            server.broken = True
            return True
        oldest = min(order, key=lambda run: run.sequence)
        return oldest.boot != boot_id() or started_since(now, oldest.since_boot)

    def _look(self, server: Server) -> None:
        """A server that does not answer is killed, so that nobody waits for its orderly stop."""
        if not server.broken:
            error = self.ping(server.instance)(5.0)
            server.broken = error is not None and not denied(error)

    def _finish(
        self, order: List[Run], outcome: Outcome, affected: List[Server], problems: List[str]
    ) -> Record:
        state = "restore_failed" if problems else "restored"
        names = ", ".join(run.run_id for run in order)
        touched = [server for server in affected if server.touched is not None]
        restarted = ", ".join(server.instance.name for server in touched) or "no server"
        cut = [f"{run.run_id} was interrupted ({run.state})" for run in order if run.state in UNFINISHED]
        message = "; ".join([*cut, f"{names} undone, {restarted} restarted"])
        if problems:
            message = f"{names} could not be undone: {'; '.join(problems)}. Look at this host now"
        for server in affected:
            if server.result["state"] == "restored":
                server.result["message"] = "runs on the old state again"
        for run in order:
            mark(run, state, message, "differs" if problems else "")
        result = dict(
            result_of(self, state, "restore_failed" if problems else None, message),
            files=outcome.files,
            changed=outcome.changed or bool(touched),
        )
        if not self.spec.get("keep_lease"):
            release(self.run_id, self.root)
        path = os.path.join(run_directory(self.run_id, self.root), RESULTS["undo"])
        with_room([run.directory for run in order], lambda: write_json(path, result))
        return result
