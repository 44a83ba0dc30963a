# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the users' variables on the controller, before any host is asked: right type, within limits, possible at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common import validation
from ansible_collections.fleet.mysqltune.plugins.module_utils.runlog import RUN_ID
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import (
    SysbenchError,
    check_extra,
    check_test,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_account import check_name
from ansible_collections.fleet.mysqltune.plugins.module_utils.tunables import problem

Options = dict[str, dict[str, Any]]

PLAYBOOKS: Options = {
    "tuning_hosts": {"type": "str"},
    "tuning_run_id": {"type": "str"},
    "tuning_benchmark": {"type": "str", "choices": ["none", "before_after"]},
    "tuning_wave_sizes": {"type": "list", "elements": "str"},
    "tuning_include_primaries": {"type": "bool"},
    "tuning_include_cluster_members": {"type": "bool"},
    "tuning_benchmark_replication_members": {"type": "bool"},
}
"""The variables of the playbooks, in the form of a role's argument spec."""

DAY = 86400
LIMITS: dict[str, tuple[int, int]] = {
    "activate_timeout": (1, DAY),
    "activate_settle": (0, DAY),
    "sysbench_threads": (0, 4096),
    "sysbench_duration": (1, DAY),
    "sysbench_warmup": (0, DAY),
    "sysbench_tables": (1, 10_000),
    "sysbench_table_size": (1, 2**31 - 1),
    "sysbench_seed": (0, 2**31 - 1),
    "sysbench_max_foreign_queries": (0, 10**9),
}
"""The smallest and the largest value of a number."""

ABSOLUTE = (
    "preflight_defaults_file",
    "sysbench_defaults_file",
    "allocator_search_path",
    "allocator_source",
    "allocator_source_prefix",
)
"""Paths on the hosts, where no directory is the current one, and of files that every play must find."""


def check_run_id(run_id: str) -> None:
    """ValueError for a name that cannot be that of a run; empty means one is made."""
    if run_id and not RUN_ID.fullmatch(run_id):
        raise ValueError(
            f"'{run_id}' is no name for a run. Use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )


def check_wave_size(size: str) -> None:
    """ValueError unless ``size`` is a number of hosts or a percentage of them."""
    if not re.fullmatch(r"[1-9]\d*|([1-9]\d?|100)%", size):
        raise ValueError(
            f"'{size}' is no size of a wave. Use whole numbers from 1, or percentages from 1% to 100%"
        )


def check_environment(variables: Mapping[str, Any]) -> None:
    """ValueError unless these are variables of allocators, with values that every launcher can hand over."""
    for name, value in variables.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(f"{name} is {_shown(value)}. Write the value as a text, in quotes")
        found = problem(str(name), str(value))
        if found:
            raise ValueError(found)


def check_prefix(path: str) -> None:
    """ValueError unless libraries can be preloaded from below this directory, and nothing else is in it."""
    if not re.fullmatch(r"(/[A-Za-z0-9._+-]+){2,}", path) or ".." in path:
        raise ValueError(
            f"'{path}' is no directory of our own. Use one below /opt or /usr/local, with plain letters in its name"
        )


def check_sha256(digest: str) -> None:
    """ValueError unless this is empty or a SHA-256 in hexadecimal digits."""
    if digest and not re.fullmatch(r"[0-9A-Fa-f]{64}", digest):
        raise ValueError(f"'{digest}' is no SHA-256. Use its 64 hexadecimal digits")


CHECKS: dict[str, Callable[[Any], None]] = {
    "allocator_environment": check_environment,
    "allocator_source_prefix": check_prefix,
    "allocator_source_sha256": check_sha256,
    "tuning_run_id": check_run_id,
    "tuning_wave_sizes": check_wave_size,
    "sysbench_test": check_test,
    "sysbench_extra_options": check_extra,
    "sysbench_schema": check_name,
    "sysbench_account": check_name,
}
"""What else must be true of a text, of each one in a list, or of a dictionary."""

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "path": "a path",
    "list": "a list",
    "dict": "a dictionary",
}
CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": validation.check_type_int,
    "float": validation.check_type_float,
    "bool": validation.check_type_bool,
    "list": validation.check_type_list,
    "dict": validation.check_type_dict,
}


def role_options() -> Options:
    """Read the argument specs of all roles, and add the variables of the playbooks."""
    found = dict(PLAYBOOKS)
    for path in sorted((Path(__file__).resolve().parents[2] / "roles").glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        found.update(specs["main"].get("options") or {})
    return found


OPTIONS = role_options()  # once: Ansible loads this before it forks


def problems(values: Mapping[str, Any], options: Options = OPTIONS) -> list[str]:
    """Return a sentence for each value that its option or the limits do not allow; other variables are left out."""
    found = (_problem(name, options[name], values[name]) for name in sorted(options) if name in values)
    return [problem for problem in found if problem]


def _problem(name: str, option: Mapping[str, Any], value: Any) -> str | None:
    converted = _converted(option.get("type", "str"), value)
    if converted is None:
        return f"{name} is {_shown(value)}. Use {_wanted(name, option)}."
    if option.get("type") != "list":
        return _bad_value(name, option, converted)
    element = {"type": option.get("elements", "str"), "choices": option.get("choices")}
    inner = next(filter(None, (_problem(name, element, one) for one in converted)), None)
    return inner and inner.replace(f"{name} is ", f"{name} has ", 1)


def _converted(kind: str, value: Any) -> Any:
    """Return the value as Ansible would convert it, None if it is of another type."""
    if value is None or (isinstance(value, bool) and kind != "bool"):
        return None
    if kind in ("str", "path"):
        return str(value) if isinstance(value, str | int | float) else None
    try:
        return CONVERTERS[kind](value)
    except (TypeError, ValueError):
        return None


def _bad_value(name: str, option: Mapping[str, Any], value: Any) -> str | None:
    choices, (least, most) = option.get("choices"), LIMITS.get(name, (value, value))
    relative = name in ABSOLUTE and value != "" and not os.path.isabs(value)
    if relative or (choices and value not in choices) or (name in LIMITS and not least <= value <= most):
        return f"{name} is {_shown(value)}. Use {_wanted(name, option)}."
    try:
        if name in CHECKS:
            CHECKS[name](value)
    except (SysbenchError, ValueError) as error:
        return f"{name}: {error}."
    return None


def _wanted(name: str, option: Mapping[str, Any]) -> str:
    if option.get("choices"):
        return " or ".join(map(str, option["choices"]))
    kind = option.get("type", "str")
    if name in ABSOLUTE and kind != "list":
        return "an absolute path"
    limits = " from {} to {}".format(*LIMITS[name]) if name in LIMITS else ""
    return WORDS[kind] + limits


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} (YAML reads yes, no, on and off without quotes as true and false)"
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)
