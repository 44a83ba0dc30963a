# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's own undo: ``/var/lib/fleet-mysqltune/undo`` needs neither Ansible nor a controller.

It is a zip file of our own sources like the transaction's program, with the state directory beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .activation import undo
from .detached import program
from .durable import FileState, read_state, replace
from .lease import JournalError, current, ensure_root, in_words
from .runlog import SPECS, listed, recorded, undo_order

NAME = "undo"
LIMITS = ("timeout", "recovery", "defaults_file")
DESCRIPTION = """Undo what fleet.mysqltune changed on this host: the files as they were, and the servers that run
on what is undone restarted on the old state, each once. Needs neither Ansible nor the controller."""
EXIT = "Exit status: 0 all is as before, or nothing was to be undone; 1 something could not be undone; 2 wrong usage."


def install(root: str) -> bool:
    """Put the program into the state directory; True if it was not there, or was another version."""
    ensure_root(root)
    path = os.path.join(root, NAME)
    shebang = f"#!{sys.executable or '/usr/bin/python3'}\n".encode()
    wanted = FileState(shebang + program("host_undo"), 0o700, os.geteuid(), os.getegid(), {})
    present = read_state(path)
    if present and (present.content, present.mode) == (wanted.content, wanted.mode):
        return False
    try:
        replace(path, wanted, f"{path}.tmp")
    except OSError as error:
        raise JournalError(
            f"cannot write {path} ({len(wanted.content)} bytes), with which this host undoes a run by itself: "
            f"{error.strerror}. Make room or access there, then run again; nothing was changed."
        ) from error
    return True


def main(argv: Sequence[str], root: str) -> int:
    """Do what the command line asks for; return the exit status."""
    asked = _parser().parse_args(argv)
    try:
        if asked.list:
            print("\n".join(_table(root)))
            return 0
        return _undo(asked, root)
    except (JournalError, OSError) as error:
        print(f"{NAME}: {in_words(error)}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description=DESCRIPTION, epilog=EXIT)
    parser.add_argument("run", nargs="?", help="undo this run and all later ones (default: the latest run)")
    parser.add_argument("--list", action="store_true", help="list the runs, the latest first, and the lease")
    parser.add_argument("--check", action="store_true", help="tell what would be done, and do nothing")
    parser.add_argument("--files-only", action="store_true", help="restart no server that runs")
    return parser


def _table(root: str) -> List[str]:
    lease = current(root)
    held = [f"run {lease.run_id} ({lease.holder}) holds this host"] if lease and lease.live else []
    return held + ([_line(run) for run in listed(root)] or ["no run has changed this host"])


def _line(run: Mapping[str, Any]) -> str:
    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["started"]))
    files = "" if run["undoable"] else ", nothing to undo"
    return f"{run['run_id']}  {begun}  {run['state']}{files}  {run['message']}".rstrip()


def _undo(asked: argparse.Namespace, root: str) -> int:
    order = undo_order(root, asked.run)
    known = [run["run_id"] for run in listed(root)]
    if asked.run and asked.run not in known:
        raise JournalError(f"this host knows no run {asked.run}, only {', '.join(known) or 'none'}")
    specs = [spec for spec in (recorded(run.run_id, SPECS["activate"], root) for run in order) if spec]
    params: Dict[str, Any] = {key: specs[0].get(key) for key in LIMITS} if specs else {}
    servers = {one["name"]: one for spec in reversed(specs) for one in spec["instances"]}
    params["instances"] = [] if asked.files_only else list(servers.values())
    result = undo(asked.run, params, root, asked.check)
    for done in result["files"]:
        print(f"{done['path']}: {done['action']}")
    for server in result["instances"]:
        print(f"{server['name']}: {server['state']}. {server['message']}".rstrip(". "))
    print(result["msg"])
    if result["restart_required"]:
        print("The servers still run on what was undone: restart them.")
    return 0 if result["ok"] else 1


def run_from(path: Optional[str] = None) -> int:
    """Run the program that lies in the state directory at ``path``."""
    return main(sys.argv[1:], os.path.dirname(os.path.abspath(path or sys.argv[0])))
