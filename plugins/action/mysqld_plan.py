# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe a host with mysqld_info and plan what has to change: one remote call."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.mysqltune.plugins.module_utils.built import PREFIX
from ansible_collections.fleet.mysqltune.plugins.module_utils.plan import plan, summary, unobserved
from ansible_collections.fleet.mysqltune.plugins.module_utils.source_archive import (
    SourceError,
    check_holds,
    check_sha256,
    recognise,
)
from ansible_collections.fleet.mysqltune.plugins.plugin_utils.values import OPTIONS, problems

SOURCE = {
    "archive": {"type": "str", "default": ""},
    "sha256": {"type": "str", "default": ""},
    "host": {"type": "str", "default": ""},
    "prefix": {"type": "path", "default": PREFIX},
}
MEMORY_ROOTS = ("sys_root", "proc_root", "config_root")
DESIRED = {
    "allocator": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "delivery": {
                "type": "str",
                "default": "auto",
                "choices": ["auto", "systemd", "mysqld_safe", "malloc_lib"],
            },
            "environment": {"type": "dict", "default": {}},
            "search_path": {"type": "list", "elements": "str", "default": []},
            "source": {"type": "dict", "options": SOURCE},
        },
    },
    "host_memory": {
        "type": "dict",
        "options": {
            "transparent_huge_pages": {"type": "str", "default": "keep"},
            "overcommit_memory": {"type": "str", "default": ""},
            "swappiness": {"type": "str", "default": ""},
            **{name: {"type": "path", "required": True} for name in MEMORY_ROOTS},
        },
    },
    "run_id": {"type": "str", "default": ""},
    "defaults_file": {"type": "str", "default": ""},
    "benchmark": {"type": "str", "default": "none", "choices": ["none", "before_after"]},
    "benchmark_replication_members": {"type": "bool", "default": False},
    "include_primaries": {"type": "bool", "default": False},
    "include_cluster_members": {"type": "bool", "default": False},
}
ARGUMENTS = {"desired": {"type": "dict", "required": True, "options": DESIRED}}
INTENT_KEYS = ("library", "environment")
TARGET_KEYS = ("name", "pid", "exe", "user", "launcher", "datadir", "socket", "sql")


class ActionModule(ActionBase):
    """Return ``observed``, ``plan``, ``summary`` and ``targets``; a refusal is in ``plan.status`` and no failure."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the variables here, run mysqld_info on the host, and plan here."""
        super().run(tmp, task_vars)
        wrong = " ".join(self._wrong_values(task_vars or {}))
        if wrong:
            return _not_asked(wrong)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        desired = arguments["desired"]
        info = _info_arguments(desired)
        try:
            hosts = (task_vars or {}).get("groups", {}).get("all", [])
            desired["allocator"]["source"] = source_of(desired["allocator"], hosts)
        except SourceError as error:
            return _not_asked(f"allocator_source: {error}.")
        found = self._execute_module(
            module_name="fleet.mysqltune.mysqld_info", module_args=info, task_vars=task_vars
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

    def _wrong_values(self, variables: dict[str, Any]) -> list[str]:
        """Return a sentence for each wrong value among the users' variables that this host has."""
        return problems(
            {name: self._templar.template(variables[name]) for name in OPTIONS if name in variables}
        )


def _not_asked(wrong: str) -> dict[str, Any]:
    """Return the result for a host that is not even asked."""
    planned = unobserved(wrong)
    nothing: dict[str, Any] = {"changed": False, "observed": {}, "targets": []}
    return dict(nothing, plan=planned, summary=summary(planned))


def source_of(allocator: dict[str, Any], hosts: list[str]) -> dict[str, Any] | None:
    """Return what the archive holds and where it is to be built, None if nothing is; ``SourceError``.

    Names that need no library (``system``, ``glibc``, ``linked``) need no archive either.
    """
    given, name = allocator["source"] or {}, allocator["name"]
    if not given.get("archive") or name in ("system", "glibc", "linked"):
        return None
    if not os.path.isfile(given["archive"]):
        raise SourceError(
            f"{given['archive']} is no file on the controller. Give the path of a source archive"
        )
    if given["host"] and given["host"] not in hosts:
        raise SourceError(
            f"allocator_source_host is '{given['host']}', which is not in the inventory. Add the host, or leave it out"
        )
    found = recognise(given["archive"])
    check_sha256(given["archive"], found.sha256, given["sha256"])
    check_holds(given["archive"], found, name)
    return {**found._asdict(), "archive": given["archive"], "prefix": given["prefix"]}


def targets(observed: dict[str, Any], planned: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the instances to restart as observed, each with the ``library`` and ``environment`` to end up with."""
    return [
        {**{key: instance[key] for key in TARGET_KEYS}, **{key: intent[key] for key in INTENT_KEYS}}
        for instance, intent in zip(observed["instances"], planned["instances"], strict=False)
        if intent["restart"]
    ]


def _info_arguments(desired: dict[str, Any]) -> dict[str, Any]:
    wanted, memory = desired["allocator"], desired["host_memory"]
    named = [wanted["name"]] if wanted["name"].startswith("/") else []
    prefix = (wanted["source"] or {}).get("prefix", PREFIX)
    return {
        "allocator_search_path": [*wanted["search_path"], *named],
        "allocator_prefix": prefix,
        "defaults_file": desired["defaults_file"] or None,
        "memory_roots": memory and {name: memory[name] for name in MEMORY_ROOTS},
    }
