# SPDX-License-Identifier: GPL-3.0-or-later
"""The malloc loop on a live server's host: figures, refusals, and nothing left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Host, Lab, until

PACKAGES = "gcc libc6-dev libgoogle-perftools4 libjemalloc2"
INSTALL = f"""
dpkg -s {PACKAGES} >/dev/null 2>&1 && exit
apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {PACKAGES} >/dev/null
"""
LEFT = (
    "ls -d /tmp/fleet-mysqltune-* /var/tmp/fleet-mysqltune-* 2>/dev/null; pgrep -fa fleet-mysqltune-mallo[c]"
)
SMALL = {"malloc_benchmark_iterations": 200_000}
TRAFFIC = """
rm -f /run/traffic.stop
HOME=/root setsid nohup sh -c 'while [ ! -e /run/traffic.stop ]; do yes "DO 1;" | head -2000; sleep 0.1; done |
  mariadb' </dev/null >/dev/null 2>&1 &
"""


@pytest.fixture
def ready(deb12: Host) -> Iterator[Host]:
    """The host with a compiler and two allocators, which stay: the packages are no part of what is tested."""
    deb12.sh(INSTALL, timeout=300)
    yield deb12
    deb12.sh("touch /run/traffic.stop")


def reported(lab: Lab, run_id: str) -> dict:
    (found,) = lab.reports.glob(f"*/{run_id}/malloc.json")
    assert found.with_name("malloc.html").exists()
    return json.loads(found.read_text())


def test_every_allocator_is_measured_bound_and_nothing_is_left_behind(lab: Lab, ready: Host) -> None:
    before = ready.tree(), ready.pid()
    done = lab.play("malloc_benchmark.yml", "deb12", tuning_run_id="loop", **SMALL)
    assert done.rc == 0 and done.counted("deb12", "changed") == 0, done.out
    (host,) = reported(lab, "loop")["hosts"]
    found = {arm["allocator"]: arm for arm in host["arms"]}
    assert {"system", "tcmalloc", "jemalloc"} <= set(found)
    for name, arm in found.items():
        assert arm["valid"] and len(arm["seconds"]) == 6, arm
        assert name == "system" or (name in arm["bound"][0] and arm["ratio"]["low"] <= arm["ratio"]["high"])
    assert "says little about a database" in done.said and "1 host: 1 measured." in done.said
    assert (ready.tree(), ready.pid()) == before and ready.sh(LEFT, check=False) == ""


@pytest.mark.quick
def test_check_mode_compiles_nothing_and_says_what_would_run(lab: Lab, deb12: Host) -> None:
    done = lab.play("malloc_benchmark.yml", "deb12", "--check", tuning_run_id="dry", **SMALL)
    assert done.rc == 0 and "would time 200,000 x malloc(1024)" in done.said, done.out
    assert not list(lab.reports.glob("*/dry")) and deb12.sh(LEFT, check=False) == ""


def test_a_host_with_live_traffic_is_refused_without_consent(lab: Lab, ready: Host) -> None:
    ready.sh(TRAFFIC)
    questions = "SHOW GLOBAL STATUS LIKE 'Questions'"
    first = int(ready.sql(questions).split()[1])
    until(lambda: int(ready.sql(questions).split()[1]) > first + 1000, 20, "there is traffic")
    refused = lab.play("malloc_benchmark.yml", "deb12", **SMALL)
    assert refused.rc != 0 and "statements/s to mariadb.service" in refused.said, refused.out
    asked = {"malloc_benchmark_beside_traffic": True, "tuning_run_id": "beside"}
    consented = lab.play("malloc_benchmark.yml", "deb12", **SMALL, **asked)
    assert consented.rc == 0, consented.out
    assert reported(lab, "beside")["headline"] == "1 host: 1 measured."


def test_a_library_that_does_not_bind_and_one_that_is_missing_do_not_count(lab: Lab, ready: Host) -> None:
    names = ["tcmalloc", "mimalloc", "/usr/lib/x86_64-linux-gnu/libz.so.1"]
    asked = {"malloc_benchmark_allocators": names, "tuning_run_id": "odd"}
    ready.sh("! dpkg -s libmimalloc2.0 >/dev/null 2>&1 || apt-get -qq remove -y libmimalloc2.0 >/dev/null")
    done = lab.play("malloc_benchmark.yml", "deb12", **SMALL, **asked)
    assert done.rc == 0, done.out
    (host,) = reported(lab, "odd")["hosts"]
    assert {Path(arm["allocator"]).name: arm["reason"] for arm in host["arms"]} == {
        "system": None,
        "tcmalloc": None,
        "mimalloc": "not_found",
        "libz.so.1": "not_bound",
    }
