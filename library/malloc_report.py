#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: malloc_report
short_description: Report what the malloc benchmark has measured
description:
  - Shows a table of what the role C(malloc_benchmark) has left on each host of the play, and writes C(malloc.json) and a
    self-contained C(malloc.html) below O(report_dir). A host that was not measured is in it, with the reason.
  - Works on the controller alone, once for all hosts; no host is asked.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  run_id:
    description: The run; names the directory below O(report_dir). Empty makes a name from the time.
    type: str
    default: ""
  report_dir:
    description: Directory of all reports. A relative path starts where the playbook was started.
    type: path
    default: reports
attributes:
  check_mode:
    description: Shows what would be measured and writes nothing.
    support: full
  diff_mode:
    description: Writes reports only.
    support: none
"""

EXAMPLES = r"""
- name: Report
  fleet.mysqltune.malloc_report:
    run_id: 20261201T031244-7f3a
  register: malloc_report
  run_once: true
"""

RETURN = r"""
report:
  description: Path of the page. There is none where nothing was measured.
  returned: always
  type: str
data:
  description: Path of the same as JSON.
  returned: always
  type: str
run_id:
  description: The name of the run.
  returned: always
  type: str
headline:
  description: The sum in one line.
  returned: always
  type: str
  sample: "3 hosts: 3 measured."
table:
  description: The lines that were shown.
  returned: always
  type: list
  elements: str
hosts:
  description: By host, its status (V(measured), V(planned) or V(failed)) and a message.
  returned: always
  type: dict
"""
