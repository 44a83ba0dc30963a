#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time from the stop of a server to its first answered query: in tune.yml, against a bare restart.

The toolkit switches the allocator in each run, to and fro; a bare restart through the same launcher follows, on
the allocator that the toolkit has just set, with the same client asked at the same pace. The host ends with tcmalloc.

usage: activation.py INVENTORY [HOST]      e.g. RUNS=10 benchmarks/activation.py inventory/lab/demo.yml deb12
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratio import within
from remote import ROOT, Remote

LIMIT = 1.2

# What mysqld_activate does between the stop and the answer, and nothing else.
BARE = """
import os, subprocess, sys, time
client, socket, *restart = sys.argv[1:]
pid = subprocess.check_output(["pgrep", "-x", "mariadbd|mysqld"], text=True).split()[0]
def mark():
    try:
        status = os.stat(socket)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
if restart[0] == "systemctl":
    subprocess.run(["systemctl", "reset-failed", restart[-1]], **quiet)
old = mark()
begin = time.monotonic()
script = subprocess.Popen(restart, stdin=subprocess.DEVNULL, **quiet)
while os.path.exists(f"/proc/{pid}"):
    time.sleep(0.02)
ask = [client, "--batch", "--no-auto-rehash", f"--socket={socket}"]
while mark() in (None, old) or subprocess.run(ask, input=b"SELECT 1;", **quiet).returncode:
    time.sleep(0.02)
print(time.monotonic() - begin)
"""


def tuned(remote: Remote, allocator: str, reports: str) -> float | None:
    """Let tune.yml switch to an allocator; return the downtime that it reports, None if nothing was to do."""
    run_id = f"benchmark-{time.time_ns()}"
    extra = {"allocator_name": allocator, "tuning_benchmark": "none", "tuning_run_id": run_id}
    command = ["ansible-playbook", "-i", remote.inventory, "tune.yml", "-l", remote.host]
    done = subprocess.run(
        [*command, "-e", json.dumps({**extra, "report_dir": reports})],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout)
    summary = Path(reports, run_id, "summary.json")
    if not summary.exists():
        return None
    return float(json.loads(summary.read_text())["hosts"][0]["instances"][0]["downtime"])


def bare(remote: Remote, instance: dict[str, Any]) -> float:
    """Restart the server through its launcher without the toolkit; return the downtime."""
    launcher = instance["launcher"]
    unit, script = launcher["unit"], launcher["init_script"]
    restart = ["systemctl", "restart", "--no-block", unit] if unit else [script, "restart"]
    return float(remote.python(BARE, instance["sql"]["client"], instance["socket"], *restart))


def compare(remote: Remote, reports: str, runs: int) -> dict[str, list[tuple[str, float]]]:
    """Return (allocator, seconds) of each counted run of both arms."""
    found: dict[str, list[tuple[str, float]]] = {"bare": [], "toolkit": []}
    targets = [("tcmalloc", "system")[(runs - 1 - number) % 2] for number in range(runs)]
    for allocator in ("tcmalloc", "system") if targets[0] == "tcmalloc" else ("system", "tcmalloc"):
        tuned(remote, allocator, reports)
    instance = remote.instance()
    for allocator in targets:
        downtime = tuned(remote, allocator, reports)
        if downtime is None:
            raise SystemExit(f"tune.yml had nothing to do for {allocator}")
        found["toolkit"].append((allocator, downtime))
        found["bare"].append((allocator, bare(remote, instance)))
    return found


def main() -> None:
    """Measure, and exit 1 if the ratio is above the limit."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    inventory, host = [*sys.argv[1:], "deb12"][:2]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="activation") as folder:
        remote = Remote(inventory, host, folder)
        found = compare(remote, folder, int(os.environ.get("RUNS", "10")))
    bare_runs, toolkit_runs = ([seconds for _, seconds in found[arm]] for arm in ("bare", "toolkit"))
    if not within(f"downtime of {host}", ("a bare restart", bare_runs), ("tune.yml", toolkit_runs), LIMIT):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
