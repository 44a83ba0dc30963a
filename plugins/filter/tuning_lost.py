# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts were lost when something of theirs may have been changed already."""

from __future__ import annotations

from typing import Any, Mapping

DOCUMENTATION = r"""
name: tuning_lost
short_description: Hosts that are no longer in the play although they may have been changed
version_added: 0.1.0
author: fleet.mysqltune contributors
description:
  - A host that was lost before its files were staged, and that has no interrupted run to be undone, is as it was. It stands in
    nobody's way and is left out.
options:
  _input:
    description: All hosts of the play.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts.
    type: dict
    required: true
  play_hosts:
    description: The hosts that are still in the play.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Name the lost hosts
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts_all | fleet.mysqltune.tuning_lost(hostvars, ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: Names of the hosts.
  type: list
  elements: str
"""


def tuning_lost(hosts: list[str], hostvars: Mapping[str, Any], play_hosts: list[str]) -> list[str]:
    """Return the hosts that have left the play and may not be as they were."""
    return [host for host in hosts if host not in play_hosts and not _as_before(hostvars[host])]


def _as_before(variables: Mapping[str, Any]) -> bool:
    """Tell from the registered results of C(tune.yml) that the host was lost before anything was staged."""
    began, staged = "preflight_lease" in variables, "allocator_systemd" in variables
    observed = (variables.get("preflight_observation") or {}).get("observed") or {}
    return began and not staged and not observed.get("unfinished")


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"tuning_lost": tuning_lost}
