# SPDX-License-Identifier: GPL-3.0-or-later
"""Order the hosts that have to change, and cut them into waves."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import RUN_ID

ARGUMENTS = {
    "run_id": {"type": "str", "default": ""},
    "sizes": {"type": "list", "elements": "str", "default": ["1", "100%"]},
}


class ActionModule(ActionBase):
    """Read each host's ``preflight_observation`` and return ``run_id``, ``changing``, ``refused`` and ``sizes``."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan the waves on the controller; nothing is sent to a host."""
        super().run(tmp, task_vars)
        _validation, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if wanted["run_id"] and not RUN_ID.fullmatch(wanted["run_id"]):
            raise AnsibleActionFail(
                f"tuning_run_id is '{wanted['run_id']}'. Use up to 100 letters, digits, '.', '_' and '-', "
                "beginning with a letter or digit."
            )
        variables = task_vars or {}
        plans = {}
        for host in variables["ansible_play_hosts"]:
            observation = variables["hostvars"][host].get("preflight_observation") or {}
            plans[host] = (observation.get("plan") or {}).get("status", "failed")
        changing = [host for host, status in plans.items() if status == "change"]
        sizes = batch_sizes(len(changing), wanted["sizes"])
        if changing:
            Display().display("\n".join(_announcement(changing, sizes)))
        return {
            "changed": False,
            "run_id": wanted["run_id"]
            or f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}",
            "changing": changing,
            "refused": [host for host, status in plans.items() if status in ("refused", "failed")],
            "sizes": sizes,
        }


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
    number = size[:-1] if size.endswith("%") else size
    if not number.isdecimal() or int(number) < 1 or (size.endswith("%") and int(number) > 100):
        raise AnsibleActionFail(
            f"tuning_wave_sizes has '{size}'. Use whole numbers from 1, or percentages from 1% to 100%."
        )
    return max(1, hosts * int(number) // 100) if size.endswith("%") else int(number)


def _announcement(changing: list[str], sizes: list[int]) -> list[str]:
    lines, first = [], 0
    for number, size in enumerate(sizes, start=1):
        lines.append(f"wave {number} of {len(sizes)}: {', '.join(changing[first : first + size])}")
        first += size
    return lines
