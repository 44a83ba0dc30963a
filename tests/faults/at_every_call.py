# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a lab host: a module is killed at each system call of its own that changes the file system, then recovered.

``at_every_call.py module NAME ARGUMENTS`` runs one of the product's modules as Ansible does, without unpacking it.
``at_every_call.py program RUN INSTANCES`` runs the transaction's program in the foreground instead of detached.
``at_every_call.py loop`` reads ``{"paths", "prepare", "command", "recover", "settle"}`` from standard input (commands
as lists of arguments, ``settle`` a command whose output must be the same in the end) and writes what it found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from typing import Any

HOME = os.path.dirname(os.path.abspath(__file__))
STATE = "/var/lib/fleet-mysqltune"
CALLS = (
    *("write", "pwrite64", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "fsync", "fdatasync", "ftruncate"),
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "setxattr", "fsetxattr"),
)
OURS = re.compile(r"/\.[^/]+\.tmp$")
KILLED = 137

State = dict[str, tuple[Any, ...]]


def module(name: str, arguments: str) -> None:
    import importlib

    from ansible.module_utils.testing import patch_module_args

    found = importlib.import_module(f"ansible_collections.fleet.mysqltune.plugins.modules.{name}")
    with patch_module_args(json.loads(arguments)):
        found.main()


def program(run_id: str, instances: str) -> None:
    """Begin an activation, and become its program instead of letting systemd start it."""
    from ansible_collections.fleet.mysqltune.plugins.module_utils import detached
    from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
    from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import Journal

    def start(argv: list[str], **_options: Any) -> Completed:
        words = argv[argv.index("OOMScoreAdjust=-900") + 1 :]
        os.execv(words[0], words)

    Journal.open(run_id).begin()
    spec = {"run_id": run_id, "root": STATE, "instances": json.loads(instances), "timeout": 30, "settle": 0}
    detached.start("activate", spec, start)


def tree(paths: list[str]) -> State:
    """Return kind, mode, owner and content of everything below the paths."""
    found: State = {}
    for top in paths:
        below = [os.path.join(at, name) for at, folders, files in os.walk(top) for name in (*folders, *files)]
        for path in [top, *below] if os.path.lexists(top) else []:
            status = os.lstat(path)
            found[path] = (status.st_mode, status.st_uid, status.st_gid, _content(path))
    return found


def _content(path: str) -> str:
    if os.path.islink(path):
        return os.readlink(path)
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def run(argv: list[str], *before: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": HOME, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*before, *argv], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def made_calls(command: list[str]) -> Counter[str]:
    """Return how often the command makes each of the calls."""
    trace = os.path.join(HOME, "trace")
    done = run(command, "strace", "-qq", "-o", trace, "-e", f"trace={','.join('?' + call for call in CALLS)}")
    assert done.returncode == 0, done.stdout + done.stderr
    with open(trace, encoding="utf-8", errors="replace") as stream:
        return Counter(line.split("(")[0] for line in stream if "(" in line)


class Loop:
    """Kill, look, recover; once for each call."""

    def __init__(self, todo: dict[str, Any]) -> None:
        self.todo = todo
        self.faults: list[str] = []
        self.killed = 0

    def begin(self) -> None:
        shutil.rmtree(STATE, ignore_errors=True)
        for command in self.todo["prepare"]:
            done = run(command)
            assert done.returncode == 0, done.stdout + done.stderr

    def recover(self, where: str, wanted: State, settled: str) -> None:
        done = run(self.todo["recover"])
        if done.returncode:
            self.faults.append(f"{where}: not recovered: {done.stdout}{done.stderr}")
        left = difference(wanted, tree(self.todo["paths"]))
        if left:
            self.faults.append(f"{where}: after the recovery {left} differ")
        now = run(self.todo["settle"]).stdout
        if now != settled:
            self.faults.append(f"{where}: after the recovery: {now}")

    def perform(self) -> dict[str, Any]:
        original, settled = tree(self.todo["paths"]), run(self.todo["settle"]).stdout
        self.begin()
        before = tree(self.todo["paths"])
        calls = made_calls(self.todo["command"])
        after = tree(self.todo["paths"])
        self.recover("without a kill", original, settled)
        for call, count in sorted(calls.items()):
            for number in range(1, count + 1):
                self.begin()
                self.kill(call, number, before, after)
                self.recover(f"killed at {call} {number}", original, settled)
        return {"calls": calls, "killed": self.killed, "faults": self.faults}

    def kill(self, call: str, number: int, before: State, after: State) -> None:
        where, inject = f"killed at {call} {number}", f"inject={call}:signal=SIGKILL:when={number}"
        done = run(
            self.todo["command"], "strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject
        )
        if done.returncode in (-9, KILLED):
            self.killed += 1
        elif done.returncode:
            self.faults.append(f"{where}: {done.returncode} {done.stdout}{done.stderr}")
        for path, state in tree(self.todo["paths"]).items():
            if state not in (before.get(path), after.get(path)) and not OURS.search(path):
                self.faults.append(f"{where}: {path} is neither the old nor the new file")


def difference(one: State, other: State) -> list[str]:
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


if __name__ == "__main__":
    sys.path.insert(0, HOME)
    action, *rest = sys.argv[1:]
    if action == "loop":
        print(json.dumps(Loop(json.load(sys.stdin)).perform()))
    else:
        {"module": module, "program": program}[action](*rest)
