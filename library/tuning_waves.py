#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: tuning_waves
short_description: Cut the hosts that have to change into waves
description:
  - Reads the plan of every host of the play (registered as C(preflight_observation)) and returns the hosts that have to
    change, in order, with the number of hosts of each wave. Runs once, on the controller.
version_added: 0.1.0
author: fleet.mysqltune contributors
options:
  run_id:
    description: Name of the run; empty makes one from the date, the time (UTC) and a random part.
    type: str
    default: ""
  sizes:
    description: Hosts per wave, as numbers or as percentages of all changing hosts; the last one repeats.
    type: list
    elements: str
    default: ["1", "100%"]
  report_dir:
    description:
      - Directory of all reports. The module fails if the report of this run could not be written there, or is there already.
    type: path
    default: reports
attributes:
  check_mode:
    description: Changes nothing, so that check mode makes no difference.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: One canary, then a quarter of the hosts at a time
  fleet.mysqltune.tuning_waves:
    sizes: [1, 25%]
  register: tuning_waves
  run_once: true
"""

RETURN = r"""
run_id:
  description: Name of the run.
  returned: success
  type: str
report_dir:
  description: Directory of all reports, as given.
  returned: success
  type: str
hosts:
  description: All hosts of the play, those included that were not reached.
  returned: success
  type: list
  elements: str
changing:
  description: Hosts that have to change, in order.
  returned: success
  type: list
  elements: str
refused:
  description: Hosts that are left alone although they are not as asked.
  returned: success
  type: list
  elements: str
sizes:
  description: Number of hosts of each wave.
  returned: success
  type: list
  elements: int
"""
