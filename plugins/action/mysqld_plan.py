# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe a host with mysqld_info and plan what has to change: one remote call."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.mysqltune.plugins.module_utils.plan import plan, summary

DESIRED = {
    "allocator": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "delivery": {"type": "str", "default": "auto"},
            "search_path": {"type": "list", "elements": "str", "default": []},
        },
    },
    "run_id": {"type": "str", "default": ""},
    "defaults_file": {"type": "str", "default": ""},
    "benchmark": {"type": "str", "default": "none"},
    "benchmark_replication_members": {"type": "bool", "default": False},
    "include_primaries": {"type": "bool", "default": False},
    "include_cluster_members": {"type": "bool", "default": False},
}
ARGUMENTS = {"desired": {"type": "dict", "required": True, "options": DESIRED}}
TARGET_KEYS = ("name", "pid", "exe", "user", "launcher", "datadir", "socket", "sql")


class ActionModule(ActionBase):
    """Return ``observed``, ``plan``, ``summary`` and ``targets``; a refusal is in ``plan.status`` and no failure."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run mysqld_info on the host, the plan here."""
        super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        desired = arguments["desired"]
        found = self._execute_module(
            module_name="fleet.mysqltune.mysqld_info",
            module_args=_info_arguments(desired),
            task_vars=task_vars,
        )
        if found.get("failed"):
            return found
        if "mysqld" not in found:
            raise AnsibleActionFail(f"mysqld_info answered without an observation: {found}")
        observed = found["mysqld"]
        planned = plan(observed, desired)
        return {
            "changed": False,
            "observed": observed,
            "plan": planned,
            "summary": summary(planned),
            "targets": targets(observed, planned),
        }


def targets(observed: dict[str, Any], planned: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the instances to restart as observed, each with the ``library`` that it must end up with."""
    return [
        {**{key: instance[key] for key in TARGET_KEYS}, "library": intent["library"]}
        for instance, intent in zip(observed["instances"], planned["instances"], strict=False)
        if intent["restart"]
    ]


def _info_arguments(desired: dict[str, Any]) -> dict[str, Any]:
    wanted = desired["allocator"]
    named = [wanted["name"]] if wanted["name"].startswith("/") else []
    return {
        "allocator_search_path": [*wanted["search_path"], *named],
        "defaults_file": desired["defaults_file"] or None,
    }
