#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: systemd_preload
short_description: Preload libraries into a systemd service
description:
  - Writes a drop-in C(/etc/systemd/system/UNIT.d/zz-fleet-mysqltune.conf) whose C(EnvironmentFile=) is our own
    C(/etc/fleet-mysqltune/UNIT.env) and comes last, because an C(EnvironmentFile=) of others beats every
    C(Environment=) line, also while C(systemctl show) still displays the losing value.
  - Libraries that others preload into the service (unit, drop-ins, every C(EnvironmentFile=)) are kept in their
    order; ours come after them. Nothing is set globally.
  - The manager is told to read the files again. The service is not restarted.
notes:
  - The environment of a unit reaches all its processes, also C(ExecStartPre=) and C(ExecStartPost=) helpers. Test them
    with M(fleet.mysqltune.preload_probe) first.
  - What is written can be undone by M(fleet.mysqltune.tuning_journal).
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  unit:
    description: Name of the service, V(mariadb) or V(mariadb@a.service). An alias stands for its unit.
    type: str
    required: true
  library:
    description:
      - Absolute paths of the libraries to preload, in order. At most one of them may be an allocator.
    type: list
    elements: path
    default: []
  environment:
    description: More variables for the service, such as V(MALLOC_CONF). Not for secrets, they are shown in the diff.
    type: dict
    default: {}
  state:
    description: V(absent) removes both files, and their directories if nothing else is in them.
    type: str
    choices: [present, absent]
    default: present
  predicted:
    description: The library is not installed yet and its path is a guess from package data. Accepted in check mode only.
    type: bool
    default: false
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
    description: Shows both files.
    support: full
  platform:
    description: Needs systemd.
    support: full
    platforms: linux
seealso:
  - module: fleet.mysqltune.mysqld_safe_preload
  - module: fleet.mysqltune.preload_probe
"""

EXAMPLES = r"""
- name: Preload tcmalloc into MariaDB
  fleet.mysqltune.systemd_preload:
    unit: mariadb
    library: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4

- name: Preload jemalloc with its options
  fleet.mysqltune.systemd_preload:
    unit: mariadb@a.service
    library: /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
    environment:
      MALLOC_CONF: background_thread:true

- name: Take our preload out again
  fleet.mysqltune.systemd_preload:
    unit: mariadb
    state: absent
"""

RETURN = r"""
unit:
  description: The unit that was meant, without aliases.
  type: str
  returned: always
  sample: mariadb.service
preload:
  description: What the next start of the service preloads, in order, libraries of others included.
  type: list
  elements: str
  returned: always
  sample: [/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4]
restart_required:
  description: Whether the running main process has another preload or other variables than the next start would have.
  type: bool
  returned: always
overridden_by:
  description: Files that keep our entry from the service. Not empty only when the module fails.
  type: list
  elements: str
  returned: always
files:
  description: Paths of our two files.
  type: list
  elements: str
  returned: always
  sample: [/etc/fleet-mysqltune/mariadb.service.env, /etc/systemd/system/mariadb.service.d/zz-fleet-mysqltune.conf]
reason:
  description:
    - Why the module failed, in one word. One of V(second_allocator), V(overridden), V(unsafe_path), V(not_found),
      V(elf_class), V(elf_machine), V(no_unit), V(no_systemd), V(invalid_unit), V(invalid_environment), V(reload), V(journal).
  type: str
  returned: failure
  sample: second_allocator
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.allocators import check_library
from ..module_utils.command import run
from ..module_utils.journal import STATE_ROOT, JournalError, journal_for
from ..module_utils.systemd_delivery import Delivery, apply, delivery
from ..module_utils.systemd_env import UnitError

ROOT = "/"
PROC = "/proc"
ARGUMENTS: Dict[str, Any] = {
    "unit": {"type": "str", "required": True},
    "library": {"type": "list", "elements": "path", "default": []},
    "environment": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "predicted": {"type": "bool", "default": False},
    "run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        wanted = decide(module)
        if wanted.changed and not module.check_mode:
            with journal_for(module.params["run_id"], STATE_ROOT) as journal:
                apply(wanted, journal, run, ROOT)
    except UnitError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    except JournalError as error:
        module.fail_json(msg=str(error), reason="journal")
    module.exit_json(changed=wanted.changed, diff=wanted.diff, **facts(wanted))


def decide(module: AnsibleModule) -> Delivery:
    """Return what has to be done; fails before anything is written."""
    params = module.params
    present = params["state"] == "present"
    environment = {name: str(value) for name, value in params["environment"].items()}
    if present and not params["library"] and not environment:
        raise UnitError("nothing_asked", "state=present needs a library or an environment")
    wanted = delivery(params["unit"], params["library"], environment, present, run, ROOT, PROC)
    if present:
        check_files(module, params["library"])
    if wanted.overridden_by:
        module.fail_json(
            msg=f"{', '.join(wanted.overridden_by)} would override our entry for {wanted.unit}: it comes after it and "
            "sets LD_PRELOAD or the same variables. Take it out, or add the library there",
            reason="overridden",
            **facts(wanted),
        )
    return wanted


def check_files(module: AnsibleModule, library: List[str]) -> None:
    for path in library:
        problem = check_library(path)
        expected = module.check_mode and module.params["predicted"]
        if problem and not (expected and problem[0] == "not_found"):
            raise UnitError(*problem)


def facts(wanted: Delivery) -> Dict[str, Any]:
    return {
        "unit": wanted.unit,
        "preload": wanted.preload,
        "restart_required": wanted.restart_required,
        "overridden_by": wanted.overridden_by,
        "files": list(wanted.after),
    }


if __name__ == "__main__":
    main()
