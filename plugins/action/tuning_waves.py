# SPDX-License-Identifier: GPL-3.0-or-later
"""Order the hosts that have to change, and cut them into waves."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.plugin_utils.values import check_wave_size

ARGUMENTS = {
    "run_id": {"type": "str", "default": ""},
    "sizes": {"type": "list", "elements": "str", "default": ["1", "100%"]},
    "report_dir": {"type": "path", "default": "reports"},
}
SUMMARY = "summary.json"


class ActionModule(ActionBase):
    """Read each host's ``preflight_observation``; return the run's name, its hosts, its waves and its report's folder."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan the waves on the controller; nothing is sent to a host."""
        super().run(tmp, task_vars)
        _validation, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        plans = {}
        for host in variables["ansible_play_hosts"]:
            observation = variables["hostvars"][host].get("preflight_observation") or {}
            plans[host] = (observation.get("plan") or {}).get("status", "failed")
        changing = [host for host, status in plans.items() if status == "change"]
        refused = [host for host, status in plans.items() if status in ("refused", "failed")]
        run_id = wanted["run_id"] or new_run_id()
        if changing or refused:
            check_report(Path(wanted["report_dir"]), run_id)
        sizes = batch_sizes(len(changing), wanted["sizes"])
        if changing:
            Display().display("\n".join(_announcement(changing, sizes)))
        return {
            "changed": False,
            "run_id": run_id,
            "report_dir": wanted["report_dir"],
            "hosts": list(variables["ansible_play_hosts_all"]),
            "changing": changing,
            "refused": refused,
            "sizes": sizes,
        }


def new_run_id() -> str:
    """Return a name for a run, made from the time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"


def check_report(report_dir: Path, run_id: str) -> None:
    """Raise if the report of this run could not be written, or would replace that of an earlier one.

    The folder of a run that was killed before its report is taken up again.
    """
    folder = report_dir.absolute() / run_id
    if (folder / SUMMARY).exists():
        raise AnsibleActionFail(
            f"tuning_run_id is '{run_id}', but {folder} has the report of an earlier run of that name. "
            "Give another name, or leave it out."
        )
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        problem = f"{nearest} is no directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem = f"{nearest} cannot be written to"
    else:
        return
    raise AnsibleActionFail(
        f"report_dir is '{report_dir}', but {problem}. Set report_dir to a directory of this machine for the reports."
    )


def batch_sizes(hosts: int, sizes: list[str]) -> list[int]:
    """Return the number of hosts of each wave; a size is a number or a percentage of all changing hosts.

    The last size repeats until every host has its wave.
    """
    if not sizes:
        raise AnsibleActionFail("tuning_wave_sizes is empty. Give at least one number or percentage.")
    counts = [_count(size, hosts) for size in sizes]
    waves: list[int] = []
    left = hosts
    while left > 0:
        wave = min(counts[min(len(waves), len(counts) - 1)], left)
        waves.append(wave)
        left -= wave
    return waves


def _count(size: str, hosts: int) -> int:
    try:
        check_wave_size(size)
    except ValueError as error:
        raise AnsibleActionFail(f"tuning_wave_sizes: {error}.") from None
    return max(1, hosts * int(size[:-1]) // 100) if size.endswith("%") else int(size)


def _announcement(changing: list[str], sizes: list[int]) -> list[str]:
    lines, first = [], 0
    for number, size in enumerate(sizes, start=1):
        lines.append(f"wave {number} of {len(sizes)}: {', '.join(changing[first : first + size])}")
        first += size
    return lines
