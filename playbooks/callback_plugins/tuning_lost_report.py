# SPDX-License-Identifier: GPL-3.0-or-later
"""Report a run that Ansible ended before its report: it does so when every host of a wave is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.fleet.mysqltune.plugins.action.tuning_report import view, write_report
from ansible_collections.fleet.mysqltune.plugins.filter.tuning_hosts import tuning_hosts
from ansible_collections.fleet.mysqltune.plugins.module_utils import report_table

DOCUMENTATION = r"""
name: tuning_lost_report
type: aggregate
short_description: Report a run of tune.yml that ended before its report
description:
  - When every host of a wave has become unreachable or has failed for good, Ansible ends the run there and then.
    This writes and shows the report of such a run all the same. It is loaded from beside the playbooks and needs no setting.
version_added: 0.1.0
author: fleet.mysqltune contributors
"""

WAVES = "fleet.mysqltune.tuning_waves"
REPORT = "fleet.mysqltune.tuning_report"


class CallbackModule(CallbackBase):
    """Wait for the report that a run owes since its waves were cut; make up for it at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "tuning_lost_report"

    def __init__(self) -> None:
        super().__init__()
        self._play: Any = None
        self._owed: dict[str, Any] | None = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._play = play

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.task.action == WAVES:
            self._owed = dict(result.result)
        elif result.task.action == REPORT:
            self._owed = None

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        if self._owed is None:
            return
        hostvars = self._play.get_variable_manager().get_vars(play=self._play)["hostvars"]
        check_mode = bool(context.CLIARGS.get("check"))
        shown = view(self._owed["run_id"], tuning_hosts(self._owed["hosts"], hostvars, check_mode))
        lines = ["", *report_table.lines(shown)]
        if not check_mode:
            folder = Path(self._owed["report_dir"]).absolute() / self._owed["run_id"]
            write_report(folder, shown)
            lines.append(f"report: {folder / 'report.html'}")
        self._display.display("\n".join(lines))
