# SPDX-License-Identifier: GPL-3.0-or-later
"""Which libraries of a host the malloc benchmark measures."""

from __future__ import annotations

from typing import Any

from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_arms import arms

DOCUMENTATION = r"""
name: malloc_arms
short_description: The libraries of a host that the malloc benchmark measures
version_added: 0.1.0
author: fleet.mysqltune contributors
description:
  - For each allocator the library that the plan would choose for the servers of the host, from what
    M(fleet.mysqltune.mysqld_info) saw.
options:
  _input:
    description: What M(fleet.mysqltune.mysqld_info) returned as C(mysqld).
    type: dict
    required: true
  wanted:
    description: Names of allocators and absolute paths. Without any, all that have a usable library.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Time them
  fleet.mysqltune.malloc_benchmark:
    library: "{{ seen.mysqld | fleet.mysqltune.malloc_arms | map(attribute='library') }}"
"""

RETURN = r"""
_value:
  description:
    - One dictionary per allocator - C(allocator), C(library), and C(reason) and C(message) where one that was named has no usable
      library.
  type: list
  elements: dict
"""


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"malloc_arms": arms}
