#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: tuning_drift
short_description: Say which servers are not as asked, and why
description:
  - Compares what M(fleet.mysqltune.mysqld_plan) has found on each host of the play (registered as C(preflight_observation)) with
    what was asked, and shows a table. A host that was unreachable or could not be observed is V(unknown), and never left out.
  - Writes the same as JSON and as a textfile for Prometheus' node_exporter, each replaced in one step.
  - Works on the controller alone, once for all hosts; no host is asked.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  json:
    description: File for the result as JSON. A relative path starts where the playbook was started.
    type: path
    default: reports/drift.json
  prometheus_file:
    description: File for the result as metrics; its name has to end with C(.prom) for node_exporter.
    type: path
    default: reports/fleet_mysqltune.prom
attributes:
  check_mode:
    description: Shows the table and writes nothing.
    support: full
  diff_mode:
    description: Writes reports only.
    support: none
"""

EXAMPLES = r"""
- name: Compare all hosts
  fleet.mysqltune.tuning_drift:
    prometheus_file: /var/lib/node_exporter/textfile/fleet_mysqltune.prom
  register: drift
  run_once: true
"""

RETURN = r"""
headline:
  description: The sum in one line.
  returned: always
  type: str
  sample: "3 hosts: 2 as asked, 1 not as asked."
table:
  description: The lines that were shown.
  returned: always
  type: list
  elements: str
hosts:
  description: By host, its state, the reasons in one text, and its instances.
  returned: always
  type: dict
  contains:
    state:
      description: V(effective), V(drift), V(stopped) or V(unknown).
      type: str
    message:
      description: All reasons.
      type: str
    instances:
      description:
        - One record per instance, with C(instance), C(launcher), C(allocator), C(level), C(status) and C(reasons).
        - What concerns the host as a whole is a record whose C(instance) is null.
      type: list
      elements: dict
"""
