#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set transparent huge pages, overcommit and swappiness of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_memory
short_description: Set transparent huge pages, overcommit and swappiness of a host, now and at every boot
description:
  - What runs and what is set at boot go together. A setting is done when both are as asked.
  - Huge pages are set at boot by C(/etc/tmpfiles.d/fleet-mysqltune-thp.conf) (tmpfiles.d(5)), the two C(vm) values by
    C(/etc/sysctl.d/60-fleet-mysqltune.conf) (sysctl.d(5)). Where nothing would apply the file, a value that differs makes
    the module fail before it changes anything.
  - A setting that is no longer asked for leaves our file; what runs stays until the next boot.
  - What else sets these values at boot, and wins over our files, is named in RV(notes) - other files of tmpfiles.d and
    sysctl.d, C(sysctl.conf), tuned, units and scripts. The kernel's command line comes before all of them.
  - In a container the settings are those of its machine. Nothing is set there; RV(supported) and RV(reason) tell it.
version_added: 0.2.0
author: fleet.mysqltune contributors
options:
  transparent_huge_pages:
    description:
      - The policy of C(/sys/kernel/mm/transparent_hugepage/enabled). C(defrag) beside it is left as it is.
      - V(keep) sets nothing and removes what this module set at boot.
    type: str
    choices: [keep, madvise, never, always]
    default: keep
  overcommit_memory:
    description: C(vm.overcommit_memory). With V(2) the kernel refuses memory that it could not give to all at once.
    type: int
    choices: [0, 1, 2]
  swappiness:
    description: C(vm.swappiness), from 0 to 200 (100 before Linux 5.8).
    type: int
  sys_root:
    description: Where sysfs is.
    type: path
    default: /sys
  proc_root:
    description: Where procfs is.
    type: path
    default: /proc
  config_root:
    description: Where the files for the next boot are. What else is applied at boot is looked for beside it.
    type: path
    default: /etc
  run_id:
    description:
      - Run of the toolkit that this change belongs to; its journal can undo it.
      - Without it the change is a run of its own.
    type: str
attributes:
  check_mode:
    description: Says exactly what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows the files and the running values.
    support: full
notes:
  - What is written can be undone by M(fleet.mysqltune.tuning_journal).
seealso:
  - module: fleet.mysqltune.tuning_journal
"""

EXAMPLES = r"""
- name: Give huge pages to programs that ask for them only
  fleet.mysqltune.host_memory:
    transparent_huge_pages: madvise
    swappiness: 1

- name: Leave the boot to others again
  fleet.mysqltune.host_memory:
    transparent_huge_pages: keep
"""

RETURN = r"""
supported:
  description: Whether the settings can be made here.
  type: bool
  returned: success
reason:
  description:
    - Why nothing can be set here, V(container) or V(read_only), else null.
    - Why the module failed, V(bad_value), V(not_lasting), V(not_taken) or V(journal).
  type: str
  returned: always
running:
  description: The values that run now, null for a setting that this kernel does not have.
  type: dict
  returned: success
  sample: {"overcommit_memory": "0", "swappiness": "60", "transparent_huge_pages": "madvise"}
changes:
  description: What was changed, as C(setting), C(from), C(to) (null if it is no longer asked for) and C(file) (null if it
    said so already).
  type: list
  elements: dict
  returned: success
  sample: [{"setting": "transparent_huge_pages", "from": "always", "to": "madvise",
    "file": "/etc/tmpfiles.d/fleet-mysqltune-thp.conf"}]
notes:
  description: What could not be set, and what will win over our files at the next boot.
  type: list
  elements: str
  returned: success
msg:
  description: The changes, or that there are none, in one sentence.
  type: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.boot_settings import Roots
from ..module_utils.host_memory import (
    HostMemoryError,
    apply,
    asked,
    changes,
    diff,
    lines,
    notes,
    observe,
    unsupported,
)
from ..module_utils.journal import STATE_ROOT, JournalError, journal_for

ARGUMENTS = {
    "transparent_huge_pages": {
        "type": "str",
        "choices": ["keep", "madvise", "never", "always"],
        "default": "keep",
    },
    "overcommit_memory": {"type": "int", "choices": [0, 1, 2]},
    "swappiness": {"type": "int"},
    "sys_root": {"type": "path", "default": "/sys"},
    "proc_root": {"type": "path", "default": "/proc"},
    "config_root": {"type": "path", "default": "/etc"},
    "run_id": {"type": "str"},
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    roots = Roots(params["sys_root"], params["proc_root"], params["config_root"])
    try:
        wanted = asked(params)
        seen = observe(roots)
        planned = changes(seen, wanted)
        shown = diff(planned, wanted, roots)
        if planned and not module.check_mode:
            with journal_for(params["run_id"], STATE_ROOT) as journal:
                apply(planned, wanted, roots, journal)
    except HostMemoryError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    except JournalError as error:
        module.fail_json(msg=str(error), reason="journal")
    module.exit_json(
        changed=bool(planned),
        diff=shown,
        supported=unsupported(seen, wanted) is None,
        reason=unsupported(seen, wanted),
        running=seen["running"] if module.check_mode else observe(roots)["running"],
        changes=planned,
        notes=notes(seen, wanted),
        msg="; ".join(lines(planned) or notes(seen, wanted)) or "nothing to change",
    )


if __name__ == "__main__":
    main()
