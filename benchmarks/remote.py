# SPDX-License-Identifier: GPL-3.0-or-later
"""One host of an inventory for the benchmarks: scripts over SSH without Ansible, single modules with it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from scale import host_variables

ROOT = Path(__file__).resolve().parent.parent


class Remote:
    """A host, reached through one warm SSH connection of its own."""

    def __init__(self, inventory: str, host: str, folder: str) -> None:
        variables = host_variables(inventory, host)
        self.inventory, self.host = inventory, host
        self.ssh = [
            *("ssh", "-o", "BatchMode=yes", "-o", "ControlMaster=auto", "-o", "ControlPersist=60"),
            *("-o", f"ControlPath={folder}/{host}", "-i", str(variables["ansible_ssh_private_key_file"])),
            *shlex.split(str(variables.get("ansible_ssh_common_args", ""))),
            f"{variables['ansible_user']}@{variables['ansible_host']}",
        ]

    def python(self, program: str, *arguments: str) -> str:
        """Run a Python program on the host; it is read from standard input."""
        command = [*self.ssh, shlex.join(["python3", "-", *arguments])]
        done = subprocess.run(command, input=program, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def module(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one of our modules on the host and return its result; a failure ends the benchmark."""
        command = ["ansible", "-i", self.inventory, self.host, "-m", f"fleet.mysqltune.{name}"]
        done = subprocess.run(
            [*command, *(["-a", json.dumps(arguments)] if arguments else [])],
            env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        found = re.search(r"^\S+ \| (?:SUCCESS|CHANGED) => (\{.*\})", done.stdout, re.DOTALL | re.MULTILINE)
        if done.returncode or not found:
            raise SystemExit(f"{name} on {self.host} failed:\n{done.stdout}")
        return dict(json.loads(found.group(1)))

    def instance(self) -> dict[str, Any]:
        """Return the host's first server as the toolkit observes it."""
        return dict(self.module("mysqld_info")["mysqld"]["instances"][0])
