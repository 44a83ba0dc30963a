# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare every host with what was asked; show the table, write it for machines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.action.tuning_report import plain, write
from ansible_collections.fleet.mysqltune.plugins.module_utils import drift_report
from ansible_collections.fleet.mysqltune.plugins.module_utils.drift import drift, unknown

ARGUMENTS = {
    "json": {"type": "path", "default": "reports/drift.json"},
    "prometheus_file": {"type": "path", "default": "reports/fleet_mysqltune.prom"},
}


class ActionModule(ActionBase):
    """Read each host's ``preflight_observation``; return ``hosts`` with ``state``, ``message`` and ``instances`` of each."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Judge all hosts of the play, those that were lost too; no host is asked."""
        super().run(tmp, task_vars)
        _validation, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        found = {
            host: _records(variables["hostvars"][host].get("preflight_observation"))
            for host in variables["ansible_play_hosts_all"]
        }
        hosts = {
            host: {
                "state": drift_report.state_of(records),
                "message": "; ".join(
                    f"{reason['name']}: {reason['message']}" for one in records for reason in one["reasons"]
                ),
                "instances": records,
            }
            for host, records in found.items()
        }
        lines = drift_report.lines(found)
        now = time.time()
        if not self._task.check_mode:
            document = {"headline": lines[-1], "time": now, "hosts": hosts}
            _write(wanted["json"], json.dumps(document, indent=2, sort_keys=True) + "\n")
            _write(wanted["prometheus_file"], drift_report.prometheus(found, now))
        Display().display("\n".join(["", *lines]))
        return {"changed": False, "headline": lines[-1], "table": lines, "hosts": hosts}


def _records(observation: Any) -> list[dict[str, Any]]:
    """Return the records of one host from what its observation left behind."""
    (seen,) = plain([observation or {"msg": "it was not observed"}])
    if "observed" not in seen or "plan" not in seen:
        return unknown(str(seen.get("msg") or "it gave no answer"))
    if not seen["observed"]:
        return unknown(seen["plan"]["message"])
    return drift(seen["observed"], seen["plan"])


def _write(path: str, text: str) -> None:
    """Write in one step: an exporter may read at any time."""
    target = Path(path).absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, text)
    except OSError as error:
        raise AnsibleActionFail(
            f"{target} cannot be written: {error.strerror}. Set report_drift_json and report_prometheus_file to files "
            "of this machine."
        ) from error
