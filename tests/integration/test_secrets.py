# SPDX-License-Identifier: GPL-3.0-or-later
"""No password in argv, environments, output, diffs or reports, even with -vvv."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import STATE, Host, Lab

PASSWORD = "Wombat-7-Zanzibar-Quokka"
DEFAULTS = "/root/fleet-test.cnf"

# Collect the argv and environments of all processes, and what stands in sysbench's option file, until told to stop.
SAMPLER = """
import glob, json, os, sys, time
def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read().replace(b"\\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
stop, seen, files, rounds = sys.argv[1], set(), set(), 0
deadline = time.monotonic() + 200
while not os.path.exists(stop) and time.monotonic() < deadline:
    rounds += 1
    for pid in filter(str.isdigit, os.listdir("/proc")):
        seen.update((read(f"/proc/{pid}/cmdline"), read(f"/proc/{pid}/environ")))
    files.update(read(path) for path in glob.glob("STATE/sysbench/*/sysbench.cnf"))
    time.sleep(0.05)
print(json.dumps({"seen": sorted(seen), "files": sorted(files - {""}), "rounds": rounds}))
""".replace("STATE", STATE)


@pytest.fixture
def administrator(deb12: Host) -> Iterator[Host]:
    """An account with a password that stands in one file on the host."""
    deb12.put(DEFAULTS, f"[client]\nuser = fleet_test\npassword = {PASSWORD}\n")
    deb12.sql(
        f"CREATE OR REPLACE USER fleet_test@localhost IDENTIFIED BY '{PASSWORD}';"
        "GRANT ALL PRIVILEGES ON *.* TO fleet_test@localhost WITH GRANT OPTION;"
    )
    yield deb12
    deb12.sql("DROP USER IF EXISTS fleet_test@localhost")
    deb12.sh(f"rm -f {DEFAULTS} /run/stop-sampling")


def test_no_password_shows_while_a_host_is_tuned_and_measured(
    lab: Lab, administrator: Host, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    remote = administrator.start(SAMPLER, "python3 - /run/stop-sampling")
    here = subprocess.Popen(
        [sys.executable, "-c", SAMPLER, str(stop)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        done = lab.tune(
            "deb12",
            *("-vvv", "--diff"),
            preflight_defaults_file=DEFAULTS,
            tuning_benchmark="before_after",
            report_dir=str(tmp_path / "reports"),
            sysbench_warmup=1,
            sysbench_duration=4,
            sysbench_tables=1,
            sysbench_table_size=1000,
        )
    finally:
        stop.touch()
        administrator.sh("touch /run/stop-sampling")
    samples = [json.loads(process.communicate(timeout=30)[0]) for process in (remote, here)]

    assert done.rc == 0, done.out
    assert administrator.effective()
    own = set(re.findall(r"^mysql-password=(\S+)$", "\n".join(samples[0]["files"]), re.MULTILINE))
    seen = "\n".join(samples[0]["seen"])
    assert len(own) == 2  # one account before, another after
    assert "sysbench oltp_read_write" in seen and f"--defaults-file={DEFAULTS}" in seen
    kept = [path for path in (tmp_path / "reports").rglob("*") if path.is_file()]
    assert {path.name for path in kept} >= {"report.html", "summary.json", "sysbench.txt", "sysbench.json"}
    places = {
        "the output of ansible-playbook": done.out,
        "argv or environment of a process on the host": seen,
        "argv or environment of a process on the controller": "\n".join(samples[1]["seen"]),
        **{str(path): path.read_text(errors="replace") for path in kept},
    }
    found = [place for place, text in places.items() if any(secret in text for secret in (PASSWORD, *own))]
    assert not found
    left = administrator.sh(f"find {STATE} -name sysbench.cnf; mariadb -NBe 'SELECT user FROM mysql.user'")
    assert "sysbench.cnf" not in left and "fleet_mysqltune" not in left
