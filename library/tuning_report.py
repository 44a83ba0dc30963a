#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: tuning_report
short_description: Write the report of a tuning run on the controller
description:
  - Writes C(summary.json) and a self-contained C(report.html) below O(report_dir) and shows a compact table.
  - Works on the controller alone; no host is asked.
  - The difference between one run before and one after is shown and never judged; the verdict is V(insufficient).
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  run_id:
    description: The run; names the directory below O(report_dir).
    type: str
    required: true
  report_dir:
    description: Directory of all reports. A relative path starts where the playbook was started.
    type: path
    default: reports
  hosts:
    description: Records of the hosts, each with C(host), C(status), C(message), C(instances) and C(benchmarks).
    type: list
    elements: dict
    required: true
  template:
    description: Template of the page.
    type: str
    default: report.html.j2
  show:
    description: Show the table.
    type: bool
    default: true
  write:
    description: Write the files. Without, only the table is shown.
    type: bool
    default: true
attributes:
  check_mode:
    description: Shows the table and writes nothing.
    support: full
  diff_mode:
    description: Writes new files only.
    support: none
"""

EXAMPLES = r"""
- name: Report the run
  fleet.mysqltune.tuning_report:
    run_id: 20261201T031244-7f3a
    hosts: "{{ ansible_play_hosts_all | fleet.mysqltune.tuning_hosts(hostvars) }}"
"""

RETURN = r"""
report:
  description: Path of the page.
  returned: always
  type: str
summary:
  description: Path of the JSON.
  returned: always
  type: str
headline:
  description: The run in one sentence.
  returned: always
  type: str
  sample: "3 hosts: 3 tuned and proved effective."
table:
  description: The lines that were shown.
  returned: always
  type: list
  elements: str
"""
