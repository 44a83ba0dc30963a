#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: mysqld_safe_preload
short_description: Preload a library into the server that mysqld_safe starts
description:
  - Inserts one marked block into a C(mysqld_safe), C(mariadbd-safe) or C(safe_mysqld) script, so that the server alone
    loads the library, at every restart of the script's loop. The helpers of the script, nohup, nice and the logger do not.
  - Or lets the script do it by its own option C(malloc-lib), see O(method).
  - No line of the script is changed. Libraries that the script itself or its environment preloads are kept, ours comes
    first.
  - Scripts of all versions from 3.23 to 9.7 and MariaDB 5.1 to 11.8 are understood; another one is refused with what was
    found in it.
  - Links are followed. The new script is checked by its own shell (C(sh -n)) before it takes the old one's place.
notes:
  - The script counts only for servers that it starts. A systemd unit that runs the daemon directly does not read it;
    see RV(in_use).
  - A running C(mysqld_safe) keeps its old text until it is started anew; killing the server alone is not enough.
  - An upgrade of the server's package replaces the script without asking; a second run puts the block back.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  path:
    description: The script, or a link to it.
    type: path
    default: /usr/bin/mysqld_safe
  library:
    description: Absolute path of the library. O(state=present) needs it or O(environment).
    type: path
  environment:
    description:
      - Variables that tune the allocator, such as V(MALLOC_CONF) or V(MALLOC_ARENA_MAX). The server alone gets them.
      - Not for secrets, they are shown in the diff.
    type: dict
    default: {}
  state:
    description:
      - With V(present), a working hand-made preload of the same library is left as it is and counts as ours; another one
        is taken out and our block takes its place.
      - V(absent) removes our blocks from the script and from its option files, and a hand-made preload from the script.
        Only the journal brings a hand-made one back. A C(malloc-lib) of somebody else's stays.
    type: str
    choices: [present, absent]
    default: present
  method:
    description:
      - V(patch) inserts the block into the script.
      - V(malloc_lib) leaves the script alone and sets its own option C(malloc-lib) in a marked block of an option file
        that it reads. Whether it would take this library is read from the script beforehand, because a script that does
        not take it starts no server. It carries no O(environment), and nohup and nice load the library as well.
      - V(auto) is V(patch), and V(malloc_lib) where the script is not understood or on a read-only file system.
      - What the other method has left of ours is removed.
    type: str
    choices: [patch, malloc_lib, auto]
    default: patch
  option_file:
    description:
      - The option file for V(malloc_lib); the script has to read it.
      - Without it, C(zz-fleet-mysqltune.cnf) in the directory that the script's option files include last, or the last
        of C(/etc/my.cnf) and C(/etc/mysql/my.cnf), or the file that a running script was given as C(--defaults-file).
    type: path
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
    description: Shows the script and the option file, secrets masked.
    support: full
  platform:
    description: Any system with a POSIX shell.
    support: full
    platforms: posix
seealso:
  - module: fleet.mysqltune.systemd_preload
  - module: fleet.mysqltune.preload_probe
"""

EXAMPLES = r"""
- name: Preload tcmalloc into the server of a tarball installation
  fleet.mysqltune.mysqld_safe_preload:
    path: /usr/local/mysql/bin/mysqld_safe
    library: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4

- name: Preload jemalloc into the server of a script that must not be changed
  fleet.mysqltune.mysqld_safe_preload:
    library: /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
    method: malloc_lib

- name: Give the script its bytes back
  fleet.mysqltune.mysqld_safe_preload:
    path: /usr/local/mysql/bin/mysqld_safe
    state: absent
"""

RETURN = r"""
path:
  description: The path as it was given.
  type: str
  returned: always
  sample: /usr/bin/mysqld_safe
real_path:
  description: The file that was changed, links followed.
  type: str
  returned: always
  sample: /usr/bin/mariadbd-safe
family:
  description: How the script starts the server - V(A), V(B) or V(C), see the documentation. Empty if it is not understood.
  type: str
  returned: always
  sample: C
method:
  description: The method that is in use, V(patch) or V(malloc_lib); null for O(state=absent).
  type: str
  returned: always
  sample: patch
method_reason:
  description: Why this method.
  type: str
  returned: always
  sample: "asked for: patch"
option_files:
  description: The option files with our block afterwards.
  type: list
  elements: str
  returned: always
  sample: [/etc/mysql/mariadb.conf.d/zz-fleet-mysqltune.cnf]
files:
  description: The files that were changed.
  type: list
  elements: str
  returned: always
  sample: [/usr/bin/mariadbd-safe]
launcher_mismatch:
  description: Whether servers run, and none of them was started by this script, so that the delivery changes nothing for them.
  type: bool
  returned: always
preload:
  description: What the script preloads afterwards, by our block, by a hand-made edit and by C(malloc-lib).
  type: list
  elements: str
  returned: always
  sample: [/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4]
environment:
  description: The variables that our block gives the server afterwards.
  type: dict
  returned: always
  sample: {MALLOC_CONF: "background_thread:true"}
adopted:
  description: Whether a hand-made preload or somebody else's C(malloc-lib) does it, so that there is no block of ours.
  type: bool
  returned: always
hand_edits:
  description: Hand-made preloads that were found, with their line numbers.
  type: list
  elements: dict
  returned: always
  sample: [{line: 13, text: export LD_PRELOAD=/usr/local/lib/libtcmalloc.so}]
in_use:
  description: Whether a running server was started by this script.
  type: bool
  returned: always
restart_required:
  description: Whether a server that this script started has another preload than its next start would have.
  type: bool
  returned: always
overridden_by:
  description: Always empty, nothing comes after the block.
  type: list
  elements: str
  returned: always
reason:
  description:
    - Why the module failed, in one word. One of V(not_understood), V(not_a_script), V(line_endings), V(damaged_block),
      V(hand_edit), V(invalid_environment), V(nothing_asked), V(unsafe_path), V(not_found), V(elf_class), V(elf_machine),
      V(read_only), V(second_allocator), V(journal).
    - V(whitelist), the script would not take the library as C(malloc-lib); the message says what it takes.
    - V(launcher_mismatch), the script does not read the option file.
  type: str
  returned: failure
  sample: not_understood
"""

import os
from typing import Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.allocators import check_library
from ..module_utils.command import run
from ..module_utils.journal import STATE_ROOT, Journal, JournalError, journal_for
from ..module_utils.mysqld_safe import ScriptError
from ..module_utils.preload_list import unsafe_path
from ..module_utils.safe_delivery import Change, Delivery, Wanted, check_syntax, delivery

PROC = "/proc"
ARGUMENTS: Dict[str, Any] = {
    "path": {"type": "path", "default": "/usr/bin/mysqld_safe"},
    "library": {"type": "path"},
    "environment": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "method": {"type": "str", "choices": ["patch", "malloc_lib", "auto"], "default": "patch"},
    "option_file": {"type": "path"},
    "predicted": {"type": "bool", "default": False},
    "run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    path, wanted = module.params["path"], asked(module)
    try:
        check_file(module, wanted.library)
        found = delivery(path, wanted, PROC)
        write(module, found)
    except ScriptError as error:
        module.fail_json(msg=f"{path}{_target(path)} was left as it is: {error}", reason=error.reason)
    except JournalError as error:
        module.fail_json(msg=str(error), reason="journal")
    mismatch = module.params["state"] == "present" and found.bypassed
    if mismatch:
        module.warn(
            f"No running server was started by {found.real_path}: this delivery changes nothing for them."
        )
    module.exit_json(changed=found.changed, diff=found.diff, launcher_mismatch=mismatch, **found.facts())


def asked(module: AnsibleModule) -> Wanted:
    """Return the library and the variables that the server has to get; nothing for ``absent``."""
    params = module.params
    if params["state"] == "absent":
        return Wanted()
    environment = {name: str(value) for name, value in params["environment"].items()}
    if not params["library"] and not environment:
        module.fail_json(msg="state=present needs a library or an environment", reason="nothing_asked")
    return Wanted(params["library"], environment, params["method"], params["option_file"])


def check_file(module: AnsibleModule, library: Optional[str]) -> None:
    """Refuse a library that must not be preloaded, before anything is written."""
    if not library:
        return
    problem = unsafe_path(library)
    found = ("unsafe_path", problem) if problem else check_library(library)
    expected = module.check_mode and module.params["predicted"]
    if found and not (expected and found[0] == "not_found"):
        module.fail_json(msg=found[1], reason=found[0])


def write(module: AnsibleModule, found: Delivery) -> None:
    if not found.changed or module.check_mode:
        return
    with journal_for(module.params["run_id"], STATE_ROOT) as journal:
        for change in found.changes:
            apply(journal, change)


def apply(journal: Journal, change: Change) -> None:
    after = change.after
    if after is None:
        journal.remove(change.path, kind=change.kind)
        return
    content = after.encode("utf-8", "surrogateescape")
    if change.kind == "mysqld_safe":
        journal.write(
            change.path, content, validate=lambda temp: check_syntax(temp, after, run), kind=change.kind
        )
    else:
        journal.write(change.path, content, kind=change.kind)


def _target(path: str) -> str:
    real = os.path.realpath(path)
    return "" if real == path else f" (which is {real})"


if __name__ == "__main__":
    main()
