# SPDX-License-Identifier: GPL-3.0-or-later
"""Show and write what the malloc benchmark has measured on all hosts of the play."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.action.tuning_report import TEMPLATES, plain, render, write
from ansible_collections.fleet.mysqltune.plugins.action.tuning_waves import new_run_id
from ansible_collections.fleet.mysqltune.plugins.module_utils import malloc_view
from ansible_collections.fleet.mysqltune.plugins.plugin_utils.values import check_run_id

PAGE = TEMPLATES / "malloc.html.j2"
ARGUMENTS = {
    "run_id": {"type": "str", "default": ""},
    "report_dir": {"type": "path", "default": "reports"},
}


class ActionModule(ActionBase):
    """Read each host's ``malloc_benchmark_*`` variables; return the paths, the table and the ``hosts`` by name."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Show the table first: a report that cannot be written must not cost the figures."""
        super().run(tmp, task_vars)
        _validation, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        run_id = wanted["run_id"] or new_run_id()
        _check(run_id)
        hosts = variables["ansible_play_hosts_all"]
        records = plain([record(host, variables["hostvars"][host]) for host in hosts])
        shown = malloc_view.view(run_id, records, time.strftime("%Y-%m-%d %H:%M:%S %Z"))
        table = malloc_view.lines(shown)
        Display().display("\n".join(["", *table]))
        directory = Path(wanted["report_dir"]).absolute() / run_id
        report, data = directory / "malloc.html", directory / "malloc.json"
        measured = any(host["status"] == "measured" for host in shown["hosts"])
        changed = measured and not self._task.check_mode
        if changed:
            _write({data: json.dumps(shown, indent=2, sort_keys=True) + "\n", report: render(PAGE, shown)})
            Display().display(f"report: {report}")
        states = {
            host["host"]: {"status": host["status"], "message": host["message"]} for host in shown["hosts"]
        }
        paths = {"report": str(report), "data": str(data)}
        return {
            "changed": changed,
            "headline": shown["headline"],
            "table": table,
            "hosts": states,
            "run_id": run_id,
            **paths,
        }


def record(host: str, variables: Any) -> dict[str, Any]:
    """Return what is known of one host after the role malloc_benchmark, or after its failure."""
    result, seen = (variables.get(f"malloc_benchmark_{name}") or {} for name in ("result", "seen"))
    failure = variables.get("malloc_benchmark_failure") or ""
    if not failure and (result.get("unreachable") or "loop" not in result):
        failure = result.get("msg") or seen.get("msg") or "it was not reached"
    unusable = [arm for arm in variables.get("malloc_benchmark_arms") or [] if arm.get("reason")]
    return {
        "host": host,
        "result": {} if failure else dict(result),
        "failure": str(failure),
        "unusable": unusable,
    }


def _check(run_id: str) -> None:
    try:
        check_run_id(run_id)
    except ValueError as error:
        raise AnsibleActionFail(f"run_id: {error}.") from error


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, text)
        except OSError as error:
            raise AnsibleActionFail(
                f"{path} cannot be written: {error.strerror}. Set report_dir to a directory of this machine for the reports."
            ) from error
