#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: preload_probe
short_description: Try a library on the server's program before any restart
description:
  - Starts the real daemon in a harmless mode (V(--no-defaults --help --verbose)) with the library preloaded, as the
    server's user. Its output is not read, so that it stands still while its memory maps are read and the
    functions that C(malloc) and C(free) are bound to. Then it is killed.
  - Where systemd runs, this happens in a throwaway unit with the properties of O(unit) that decide whether a library
    can be loaded (user, capabilities, system call filter, file system protection, limits). Elsewhere, or where
    C(systemd-run) is too old for that, as a plain process of that user.
  - The preload of a unit reaches its helpers too. Their interpreters and C(/bin/sh) are started with it and with
    nothing to do; the helpers themselves are not run.
  - Nothing is changed and no process stays behind, also when the module is killed.
notes:
  - It cannot predict crashes, hangs and memory use under load, nor what plugins do that only a real start loads.
  - The running server is not touched.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  exe:
    description: The program of the server, as RV(mysqld_info#module:mysqld.instances[].exe) names it.
    type: path
    required: true
  library:
    description: Absolute path of the library to try.
    type: path
    required: true
  user:
    description: User that the server runs as. Without it the user of O(unit), or root.
    type: str
  unit:
    description:
      - systemd unit of the server. Libraries that others preload into it are preloaded in the test as well.
      - Ignored where systemd does not run.
    type: str
  environment:
    description: More variables for the test, such as V(MALLOC_CONF).
    type: dict
    default: {}
  defaults_file:
    description: Option file of the server that is read in the test instead of none at all. The user must be able to read it.
    type: path
  timeout:
    description: Seconds after which a daemon without output counts as hanging.
    type: int
    default: 20
attributes:
  check_mode:
    description: Changes nothing, so that check mode makes no difference.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
  platform:
    description: Reads C(/proc).
    support: full
    platforms: linux
seealso:
  - module: fleet.mysqltune.systemd_preload
  - module: fleet.mysqltune.mysqld_safe_preload
"""

EXAMPLES = r"""
- name: Would tcmalloc work in this server?
  fleet.mysqltune.preload_probe:
    exe: /usr/sbin/mariadbd
    library: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
    user: mysql
    unit: mariadb.service
  register: probe
  failed_when: probe.level != 'effective'
"""

RETURN = r"""
level:
  description: How far the library came - V(intended), V(delivered), V(mapped) or V(effective). Only the last is success.
  type: str
  returned: success
  sample: effective
reason:
  description:
    - Why it did not come further, in one word, else null. For example V(crash), V(hang), V(not_found), V(elf_class),
      V(secure_exec), V(second_allocator), V(linked_allocator).
    - V(not_testable) means that the daemon does not stand this test without the library either.
  type: str
  returned: success
  sample: null
message:
  description: The finding in words, and what the test cannot predict.
  type: str
  returned: success
  sample: /usr/sbin/mariadbd starts with /usr/lib/libx.so.4, and malloc and free are bound to it.
bound:
  description: Real paths that V(malloc) and V(free) are bound to.
  type: dict
  returned: success
  sample: {malloc: /usr/lib/libx.so.4.5.9, free: /usr/lib/libx.so.4.5.9}
mapped:
  description: Allocator libraries and preloaded files in the daemon's memory.
  type: list
  elements: str
  returned: success
preload:
  description: What was preloaded, in order, libraries of others included.
  type: list
  elements: str
  returned: success
method:
  description: V(systemd) for a throwaway unit, V(direct) for a plain process.
  type: str
  returned: success
helpers:
  description: The unit's helpers, with RV(helpers[].ok) null for those whose interpreter was not tried.
  type: list
  elements: dict
  returned: success
  contains:
    path:
      description: The helper.
      type: str
    interpreter:
      description: What was started with the preload.
      type: str
    ok:
      description: Whether it started.
      type: bool
    reason:
      description: V(crash), V(hang) or null.
      type: str
    message:
      description: The finding in words.
      type: str
"""

import os
import signal
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.allocators import check_library
from ..module_utils.preload_list import unsafe_path
from ..module_utils.probe import Result, Subject, probe
from ..module_utils.systemd_env import UnitError

ARGUMENTS: dict[str, Any] = {
    "exe": {"type": "path", "required": True},
    "library": {"type": "path", "required": True},
    "user": {"type": "str"},
    "unit": {"type": "str"},
    "environment": {"type": "dict", "default": {}},
    "defaults_file": {"type": "path"},
    "timeout": {"type": "int", "default": 20},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))
    try:
        result = examine(subject(module))
    except UnitError as error:
        module.fail_json(msg=str(error), reason=error.reason)
    except OSError as error:
        module.fail_json(msg=str(error), reason="not_testable")
    module.exit_json(
        changed=False, msg=result.message, **vars(result)
    )  # Ansible shows msg where failed_when holds


def subject(module: AnsibleModule) -> Subject:
    params = dict(module.params)
    params["environment"] = {name: str(value) for name, value in params["environment"].items()}
    if not os.access(params["exe"], os.X_OK):
        module.fail_json(msg=f"exe: {params['exe']} is not a program on this host", reason="not_testable")
    return Subject(**params)


def examine(candidate: Subject) -> Result:
    """Look at the file first: what must not be preloaded is not even tried."""
    problem = unsafe_path(candidate.library)
    found = ("unsafe_path", problem) if problem else check_library(candidate.library)
    if found and found[0] in ("unsafe_path", "not_found", "not_elf"):
        return Result(reason=found[0], message=found[1], preload=[candidate.library], method="none")
    return probe(candidate)


if __name__ == "__main__":
    main()
