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
    description: Absolute path of the library. Needed for O(state=present).
    type: path
  state:
    description:
      - With V(present), a working hand-made preload of the same library is left as it is and counts as ours; another one
        is taken out and our block takes its place.
      - V(absent) removes our block and a hand-made preload. Only the journal brings a hand-made one back.
    type: str
    choices: [present, absent]
    default: present
  method:
    description: V(patch) inserts the block into the script.
    type: str
    choices: [patch]
    default: patch
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
    description: Shows the script.
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
preload:
  description: What the script preloads afterwards, in order.
  type: list
  elements: str
  returned: always
  sample: [/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4]
adopted:
  description: Whether a hand-made preload does it, so that there is no block of ours.
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
      V(hand_edit), V(unsafe_path), V(not_found), V(elf_class), V(elf_machine), V(journal).
  type: str
  returned: failure
  sample: not_understood
"""

import os
from typing import Any, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.allocators import check_library
from ..module_utils.command import run
from ..module_utils.journal import STATE_ROOT, JournalError, journal_for
from ..module_utils.mysqld_safe import ScriptError
from ..module_utils.preload_list import unsafe_path
from ..module_utils.safe_delivery import Delivery, check_syntax, delivery

PROC = "/proc"
ARGUMENTS: Dict[str, Any] = {
    "path": {"type": "path", "default": "/usr/bin/mysqld_safe"},
    "library": {"type": "path"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "method": {"type": "str", "choices": ["patch"], "default": "patch"},
    "predicted": {"type": "bool", "default": False},
    "run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS, supports_check_mode=True, required_if=[("state", "present", ("library",))]
    )
    path, library = module.params["path"], module.params["library"]
    library = library if module.params["state"] == "present" else None
    try:
        check_file(module, library)
        wanted = delivery(path, library, PROC)
        write(module, wanted)
    except ScriptError as error:
        module.fail_json(msg=f"{path}{_target(path)} was left as it is: {error}", reason=error.reason)
    except JournalError as error:
        module.fail_json(msg=str(error), reason="journal")
    if library and wanted.bypassed:
        module.warn(
            f"No running server was started by {wanted.real_path}: the block changes nothing for them."
        )
    module.exit_json(changed=wanted.changed, diff=wanted.diff, **wanted.facts())


def check_file(module: AnsibleModule, library: Optional[str]) -> None:
    """Refuse a library that must not be preloaded, before anything is written."""
    if not library:
        return
    problem = unsafe_path(library)
    found = ("unsafe_path", problem) if problem else check_library(library)
    expected = module.check_mode and module.params["predicted"]
    if found and not (expected and found[0] == "not_found"):
        module.fail_json(msg=found[1], reason=found[0])


def write(module: AnsibleModule, wanted: Delivery) -> None:
    if not wanted.changed or module.check_mode:
        return
    content = wanted.after.encode("utf-8", "surrogateescape")
    with journal_for(module.params["run_id"], STATE_ROOT) as journal:
        journal.write(
            wanted.real_path,
            content,
            validate=lambda temp: check_syntax(temp, wanted.after, run),
            kind="mysqld_safe",
        )


def _target(path: str) -> str:
    real = os.path.realpath(path)
    return "" if real == path else f" (which is {real})"


if __name__ == "__main__":
    main()
