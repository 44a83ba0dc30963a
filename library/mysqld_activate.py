#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restart servers in one detached transaction: proved, or everything back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mysqld_activate
short_description: Restart servers on what a run staged, prove it, or put everything back
description:
  - Starts a program on the host that restarts each server once through its real launcher, waits until it answers a query, checks
    from the running process that C(malloc) and C(free) are bound to the wanted library, watches it for a settle period, and
    commits the run.
  - If a server crashes, hangs or does not use the library, that program puts back every file of the run, byte for byte, and
    restarts the servers on them. All servers of a host are one transaction.
  - The program needs neither this module nor the connection - it ends in a commit or in the old state when the controller dies
    as well. It runs as a transient unit under systemd, elsewhere in a session of its own.
  - Called again with the same O(run_id), the module returns the recorded result, or waits for the program that is at work.
version_added: 0.1.0
author: fleet.mysqltune contributors
options:
  run_id:
    description: The run whose files were staged; its journal is used to put them back.
    type: str
    required: true
  instances:
    description:
      - The servers, as M(fleet.mysqltune.mysqld_info) returns them, each with C(library) added - the absolute path of the library
        that must be bound, or null for the system's allocator - and C(environment), the variables that the process must have.
      - A stopped server is left stopped. One that nothing would start again is refused before anything is touched.
      - Servers behind one unit or init script (C(mysqld_multi)) are restarted together, once. All of them have to be named; with
        another server in that unit the transaction ends before it restarts anything.
    type: list
    elements: dict
    required: true
  timeout:
    description: Seconds that a server may take from the end of its old process to its first answer.
    type: int
    default: 120
  recovery:
    description: Seconds that it may take beyond O(timeout), while its log shows that crash recovery makes progress.
    type: int
    default: 900
  settle:
    description: Seconds after the proof in which a crash still counts as a failed start.
    type: int
    default: 3
  expect:
    description: The evidence level that each server must reach.
    type: str
    choices: [delivered, mapped, effective]
    default: effective
  defaults_file:
    description: Client option file with SQL credentials on the host. Without one, socket authentication as root.
    type: path
attributes:
  check_mode:
    description: Says which servers would be restarted.
    support: full
  diff_mode:
    description: The files were changed by other modules, which show their diffs.
    support: none
"""

EXAMPLES = r"""
- name: Restart and prove
  fleet.mysqltune.mysqld_activate:
    run_id: "{{ tuning_run_id }}"
    instances: "{{ targets }}"
    timeout: 300
  register: activation

- name: Show how long each server was away
  ansible.builtin.debug:
    msg: "{{ activation.instances | map(attribute='downtime') }}"
"""

RETURN = r"""
state:
  description: V(committed), V(restored), or V(restore_failed) if a server does not run on the old state either.
  returned: when a transaction was started
  type: str
  sample: committed
reason:
  description:
    - One word why it did not commit, such as V(crash), V(hang), V(not_restarted) or the reason code of the evidence.
    - Null if it did.
  returned: when a transaction was started
  type: str
  sample: crash
message:
  description: The same in a sentence, with the words of the server and its launcher.
  returned: always
  type: str
  sample: "mariadb.service: restarted and proved"
instances:
  description: What became of each server.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
      sample: mariadb.service
    state:
      description: V(committed), V(restored), V(stopped) or V(restore_failed); in check mode V(would_restart) or V(stopped).
      type: str
      sample: committed
    level:
      description: The evidence level reached, null if the server did not answer.
      type: str
      sample: effective
    reason:
      description: Why the level was not reached, null if it was.
      type: str
      sample: null
    message:
      description: What there is to say about it.
      type: str
      sample: ""
    downtime:
      description: Seconds from the stop to the first answered query; for a restored server to its first answer on the old state.
      type: float
      sample: 1.234
    old_pid:
      description: The process before.
      type: int
      sample: 812
    new_pid:
      description: The process now.
      type: int
      sample: 1930
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.activation import activate, check_launchers
from ..module_utils.lease import STATE_ROOT, JournalError, in_words

ARGUMENTS = {
    "run_id": {"type": "str", "required": True},
    "instances": {"type": "list", "elements": "dict", "required": True},
    "timeout": {"type": "int", "default": 120},
    "recovery": {"type": "int", "default": 900},
    "settle": {"type": "int", "default": 3},
    "expect": {"type": "str", "choices": ["delivered", "mapped", "effective"], "default": "effective"},
    "defaults_file": {"type": "path"},
}


DAY = 86400


def planned(instances):
    """Return the result of check mode: who would be restarted."""
    names = check_launchers(instances)
    states = [
        {"name": one["name"], "state": "would_restart" if one["name"] in names else "stopped"}
        for one in instances
    ]
    message = f"would restart {', '.join(names)}" if names else "no server runs, none would be started"
    return {"changed": bool(names), "message": message, "instances": states}


def main():
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    for name, least in (("timeout", 1), ("recovery", 0), ("settle", 0)):
        if not least <= module.params[name] <= DAY:
            module.fail_json(msg=f"{name} is {module.params[name]}. Use {least} to {DAY} seconds.")
    try:
        if module.check_mode:
            module.exit_json(**planned(module.params["instances"]))
        result = activate(module.params, STATE_ROOT)
    except (JournalError, OSError) as error:
        module.fail_json(msg=in_words(error))
    if result["state"] != "committed":
        module.fail_json(msg=result["message"], **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
