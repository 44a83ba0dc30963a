#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tune.yml that finds nothing to do on many hosts, against a ping of the same hosts.

The hosts are simulated: every name is one tuned lab host, reached over an SSH connection of its own.

usage: scale.py INVENTORY [HOST] [HOSTS]      e.g. benchmarks/scale.py inventory/lab/demo.yml deb12 50
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ratio import report

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2.5


def host_variables(inventory: str, host: str) -> dict[str, object]:
    """Return the variables of one inventory host as Ansible sees them."""
    command = ["ansible-inventory", "-i", inventory, "--host", host]
    return dict(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def fleet(variables: dict[str, object], hosts: int, controls: str) -> dict[str, object]:
    """Return an inventory of many names for one host; each name gets its own SSH control socket."""
    names = [f"node{number:04d}" for number in range(1, hosts + 1)]
    arguments = str(variables.get("ansible_ssh_common_args", ""))
    return {
        "dbhosts": {
            "hosts": {
                name: {
                    **variables,
                    "ansible_ssh_common_args": f"{arguments} -o ControlPath={controls}/{name}",
                }
                for name in names
            }
        }
    }


def main() -> None:
    """Build the inventory, measure, and exit 1 if the ratio is above the limit."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    inventory, host, hosts = (sys.argv[1:] + ["deb12", "50"][len(sys.argv) - 2 :])[:3]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="scale") as folder:
        path = Path(folder, "hosts.json")
        path.write_text(
            json.dumps(fleet(host_variables(inventory, host), int(hosts), folder)), encoding="utf-8"
        )
        within = report(
            f"{hosts} hosts",
            f"ansible -i {path} dbhosts -m ansible.builtin.ping",
            f"ansible-playbook -i {path} tune.yml -l dbhosts",
            int(os.environ.get("RUNS", "10")),
            LIMIT,
        )
    if not within:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
