#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal and the lease of a host: open, close, list, undo, prune."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tuning_journal
short_description: Undo what runs changed on a host, and hold the host for one run at a time
description:
  - Each module of this collection that writes records the state of every file before it changes it, in a journal under
    C(/var/lib/fleet-mysqltune), for root alone. The journal never leaves the host, and undoing needs nothing else.
  - A file is put back only if it still is what the run left there. If somebody else changed it since, our part is taken out of
    it where its kind allows that; else it is left alone and the module fails, saying what differs.
  - Runs are undone latest first; an older run only through the later ones. Installed packages stay.
version_added: 0.1.0
author: fleet.mysqltune contributors
options:
  state:
    description:
      - V(opened) takes the lease of the host for O(run_id), and first puts back what a run that was killed left behind -
        the files, and the servers if it had begun to restart them.
      - V(closed) gives the lease back and prunes. A run that is still open is committed as it stands.
      - V(listed) returns the runs and the lease.
      - V(restored) undoes O(run_id), or the latest run.
      - V(pruned) deletes the oldest runs, which can then no longer be undone.
    type: str
    choices: [opened, closed, listed, restored, pruned]
    required: true
  run_id:
    description: The run. Required with V(opened) and V(closed); without it V(restored) undoes the latest run.
    type: str
  instances:
    description:
      - With O(state=restored), the servers as M(fleet.mysqltune.mysqld_info) returns them. Those that may run on what is
        undone are restarted on the old state, each once, by a program on the host that does not need this connection.
      - Without them only files are put back. The servers of an activation that was interrupted, or whose restore failed, are
        known from the run itself, and are brought back in any case.
    type: list
    elements: dict
    default: []
  timeout:
    description: Seconds that a server may take from the end of its old process to its first answer.
    type: int
    default: 120
  recovery:
    description: Seconds that it may take beyond O(timeout), while its log shows that crash recovery makes progress.
    type: int
    default: 900
  defaults_file:
    description: Client option file with SQL credentials on the host. Without one, socket authentication as root.
    type: path
  keep:
    description: With V(pruned) and V(closed), how many finished runs are kept.
    type: int
    default: 20
  holder:
    description: With V(opened), who holds the lease, for the message that others get. By default the remote user and its address.
    type: str
attributes:
  check_mode:
    description: Tells file by file what would be done; V(opened) says whether the lease can be had.
    support: full
  diff_mode:
    description: Names the files and says what happens to them. Contents are never shown, they may hold passwords.
    support: full
"""

EXAMPLES = r"""
- name: Undo the latest run and restart the servers on the old state
  fleet.mysqltune.tuning_journal:
    state: restored
    instances: "{{ observed.instances }}"

- name: What has been done here
  fleet.mysqltune.tuning_journal:
    state: listed
  register: journal
"""

RETURN = r"""
msg:
  description: What was done.
  returned: always
  type: str
  sample: 20260102T030405Z undone, mariadb.service restarted
run_ids:
  description: The runs that were undone, latest first.
  returned: with V(opened) and V(restored)
  type: list
  elements: str
files:
  description: What was done to each file.
  returned: with V(opened) and V(restored)
  type: list
  elements: dict
  contains:
    run_id:
      description: The run that is undone.
      type: str
    path:
      description: The file.
      type: str
      sample: /etc/fleet-mysqltune/mariadb.service.env
    action:
      description: What was done to it, in words.
      type: str
      sample: put back as it was before
instances:
  description: The servers that were restarted or left, as M(fleet.mysqltune.mysqld_activate) returns them.
  returned: with V(opened) and V(restored)
  type: list
  elements: dict
known:
  description: Whether this host knows the run that was to be undone.
  returned: with V(opened) and V(restored)
  type: bool
restart_required:
  description: A server may still run on what was undone, because no instances were given.
  returned: with V(opened) and V(restored)
  type: bool
runs:
  description: Every run of this host, latest first.
  returned: with V(listed)
  type: list
  elements: dict
  contains:
    run_id:
      description: The run.
      type: str
    state:
      description: V(open), V(activating), V(restoring), V(committed), V(restored), V(restore_failed) or V(closed).
      type: str
    message:
      description: Why.
      type: str
    reason:
      description: The same in one word.
      type: str
    started:
      description: When it began, seconds since the epoch.
      type: float
    finished:
      description: When it ended, null while it has not.
      type: float
    files:
      description: The files that it changed.
      type: list
      elements: str
    undoable:
      description: Whether V(restored) would have something to do.
      type: bool
lease:
  description: The lease, live or expired, null without one.
  returned: with V(listed)
  type: dict
  contains:
    run_id:
      description: The run that has it.
      type: str
    holder:
      description: Who took it.
      type: str
    expires:
      description: When it ends, seconds since the epoch.
      type: float
    live:
      description: Whether it is still good.
      type: bool
pruned:
  description: The runs that were deleted.
  returned: with V(pruned) and V(closed)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.activation import close_run, open_run, undo
from ..module_utils.host_undo import install
from ..module_utils.lease import STATE_ROOT, JournalError, current, in_words
from ..module_utils.runlog import listed, pruned

ARGUMENTS = {
    "state": {
        "type": "str",
        "choices": ["opened", "closed", "listed", "restored", "pruned"],
        "required": True,
    },
    "run_id": {"type": "str"},
    "instances": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 120},
    "recovery": {"type": "int", "default": 900},
    "defaults_file": {"type": "path"},
    "keep": {"type": "int", "default": 20},
    "holder": {"type": "str"},
}


def opened(params, check):
    if not check:
        install(STATE_ROOT)
    return open_run(params["run_id"], params, STATE_ROOT, params["holder"], check)


def closed(params, check):
    if check:
        return {"ok": True, "changed": False, "msg": f"run {params['run_id']} would be closed", "pruned": []}
    return close_run(params["run_id"], STATE_ROOT, params["keep"])


def shown(_params, _check):
    lease = current(STATE_ROOT)
    runs = listed(STATE_ROOT)
    message = f"{len(runs)} runs"
    return {
        "ok": True,
        "changed": False,
        "msg": message,
        "runs": runs,
        "lease": lease.as_dict() if lease else None,
    }


def restored(params, check):
    return undo(params["run_id"] or None, params, STATE_ROOT, check)


def without_old(params, check):
    gone = pruned(STATE_ROOT, params["keep"], check)
    return {"ok": True, "changed": bool(gone), "msg": f"{len(gone)} runs deleted", "pruned": gone}


STATES = {"opened": opened, "closed": closed, "listed": shown, "restored": restored, "pruned": without_old}


def main():
    module = AnsibleModule(
        ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", "opened", ["run_id"]), ("state", "closed", ["run_id"])],
    )
    try:
        result = STATES[module.params["state"]](module.params, module.check_mode)
    except (JournalError, OSError) as error:
        module.fail_json(msg=in_words(error))
    if not result.pop("ok"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
