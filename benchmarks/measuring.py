#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the toolkit costs a host while it measures, and whether its sysbench is like one typed by hand.

Counted is the CPU of everything of the toolkit but sysbench and the server: the supervisor, the SSH session, and
each tail that looks at the output. argv, environment and CPU affinity of sysbench are compared with a command that
is typed over SSH. Two things are not compared: what names the SSH connection, and what the shell itself adds ($_).

usage: measuring.py INVENTORY [HOST]      e.g. RUNS=10 benchmarks/measuring.py inventory/lab/demo.yml deb12
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from remote import ROOT, Remote

LIMIT = 0.01
SECONDS = 30
SETTINGS = {"threads": 4, "tables": 1, "table_size": 10000, "seed": 1}

# Wait for sysbench; then add up, over a part of its run, what the processes of the toolkit used, children included.
WATCH = """
import json, os, sys, time
seconds = float(sys.argv[1])
tick = os.sysconf("SC_CLK_TCK")
def read(path):
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "replace")
def stat(pid):
    head, _, tail = read(f"/proc/{pid}/stat").rpartition(")")
    fields = tail.split()
    return head.partition("(")[2], int(fields[1]), sum(map(int, fields[11:15])) / tick
def processes():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[int(pid)] = stat(pid)
        except OSError:
            pass
    return found
def ancestors(pid, known):
    while pid in known:
        yield pid
        pid = known[pid][1]
def toolkit(known, sysbench):
    own = set(ancestors(os.getpid(), known))
    listeners = {pid for pid in known if known[pid][0] == "sshd" and known[pid][1] == 1}
    sessions = {pid for pid in known if known[pid][1] in listeners} - own
    inside = {pid for pid in known if sessions & set(ancestors(pid, known))}
    return {pid: known[pid][2] for pid in (inside | {known[sysbench][1]}) - {sysbench, 1}}
deadline = time.monotonic() + 60
def measures(pid):
    try:
        return read(f"/proc/{pid}/cmdline").endswith("\\0run\\0") and len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
sysbench = None
while sysbench is None and time.monotonic() < deadline:
    sysbench = next((pid for pid, one in processes().items() if one[0] == "sysbench" and measures(pid)), None)
    time.sleep(0.05)
time.sleep(1)
begin, before = time.monotonic(), toolkit(processes(), sysbench)
time.sleep(seconds)
known = processes()
passed, after = time.monotonic() - begin, toolkit(known, sysbench)
used = {pid: cpu - before.get(pid, 0.0) for pid, cpu in after.items()}
print(json.dumps({
    "share": sum(used.values()) / passed,
    "who": {f"{known[pid][0]} {pid}": round(cpu, 3) for pid, cpu in used.items()},
    "supervised": known[sysbench][1] in after,
    "argv": read(f"/proc/{sysbench}/cmdline").split("\\0")[:-1],
    "environment": sorted(read(f"/proc/{sysbench}/environ").split("\\0")[:-1]),
    "affinity": sorted(os.sched_getaffinity(sysbench)),
}))
"""

# The same facts of a sysbench that somebody else has started.
LOOK = """
import json, os, sys, time
deadline = time.monotonic() + 30
def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
while time.monotonic() < deadline:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if read(f"/proc/{pid}/comm") == "sysbench\\n" and len(os.listdir(f"/proc/{pid}/task")) > 1:
            print(json.dumps({
                "argv": read(f"/proc/{pid}/cmdline").split("\\0")[:-1],
                "environment": sorted(read(f"/proc/{pid}/environ").split("\\0")[:-1]),
                "affinity": sorted(os.sched_getaffinity(int(pid))),
            }))
            sys.exit()
    time.sleep(0.05)
sys.exit("no sysbench runs")
"""

CONNECTION = ("SSH_CLIENT", "SSH_CONNECTION", "XDG_SESSION_ID", "_")


def typed(config: str) -> list[str]:
    """Return the command line that a user would type for the same test."""
    return [
        *("sysbench", "oltp_read_write", f"--config-file={config}", "--threads=4", "--tables=1"),
        *("--table-size=10000", f"--time={SECONDS}", "--events=0", "--report-interval=1"),
        *("--forced-shutdown=10", "--rand-type=uniform", "--rand-seed=1", "run"),
    ]


def comparable(environment: list[str]) -> list[str]:
    """Return an environment without what differs from one SSH connection to the next."""
    return [entry for entry in environment if entry.partition("=")[0] not in CONNECTION]


def measured(remote: Remote, where: dict[str, Any]) -> dict[str, Any]:
    """Let the toolkit measure for 30 s and return what was seen on the host meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        watch = pool.submit(remote.python, WATCH, str(SECONDS - 4))
        remote.module("sysbench", command="run", duration=SECONDS, **where)
        return dict(json.loads(watch.result()))


def by_hand(remote: Remote, config: str) -> dict[str, Any]:
    """Type the command over SSH and return what it looks like on the host."""
    process = subprocess.Popen(
        [*remote.ssh, shlex.join(typed(config))], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        return dict(json.loads(remote.python(LOOK)))
    finally:
        process.wait(SECONDS + 30)


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return in words how the toolkit's process differs from the typed one."""
    found = []
    for what in ("argv", "environment", "affinity"):
        mine, other = (
            comparable(one[what]) if what == "environment" else one[what] for one in (ours, theirs)
        )
        if mine != other:
            only = (
                [entry for entry in mine if entry not in other],
                [entry for entry in other if entry not in mine],
            )
            found.append(f"{what} differs: toolkit {only[0]}, by hand {only[1]}")
    return found


def main() -> None:
    """Measure, print, and exit 1 above the limit or with a sysbench that is not like a typed one."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    inventory, host = [*sys.argv[1:], "deb12"][:2]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="measuring") as folder:
        remote = Remote(inventory, host, folder)
        instance = remote.instance()
        where = {"socket": instance["socket"], "client": instance["sql"]["client"], **SETTINGS}
        prepared = remote.module("sysbench", command="prepare", **where)
        print(f"sysbench {prepared['version']} on {host}")
        try:
            runs = [measured(remote, where) for _ in range(int(os.environ.get("RUNS", "1")))]
            config = next(word for word in runs[-1]["argv"] if word.startswith("--config-file="))
            differences = difference(runs[-1], by_hand(remote, config.partition("=")[2]))
        finally:
            remote.module("sysbench", command="cleanup", **where)
    shares = [run["share"] for run in runs]
    print(f"used on the host in {SECONDS - 4} s, in CPU seconds: {runs[-1]['who']}")
    print(
        f"toolkit while measuring: {statistics.median(shares):.2%} of a CPU [{min(shares):.2%} .. {max(shares):.2%}] "
        f"(limit {LIMIT:.0%}, median of {len(shares)})"
    )
    print("\n".join(differences) or "argv, environment and affinity are those of a command typed by hand")
    if statistics.median(shares) >= LIMIT or differences or not all(run["supervised"] for run in runs):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
