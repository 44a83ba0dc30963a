# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller or the connection dies right after the restart began, with a library that crashes the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BYTES, PID, STATE, Host, Lab, kill_group, until

LIBRARY = "/usr/local/lib/libcrash.so"

# Wait until the server that runs now has ended: the restart has begun.
RESTART_BEGAN = f"""
old=$({PID}); echo watching
for i in $(seq 6000); do [ -e /proc/$old ] || break; sleep 0.02; done
[ ! -e /proc/$old ] && echo began
"""

# End every SSH session but the one that this runs in.
CUT = """
own=; pid=$$
while [ "$pid" -gt 1 ]; do own="$own $pid"; pid=$(sed -n 's/^PPid:\\t//p' /proc/$pid/status); done
for pid in $(pgrep -x 'sshd|sshd-session'); do
  case " $own " in *" $pid "*) continue ;; esac
  tr '\\0' ' ' </proc/$pid/cmdline | grep -q 'sshd: ' && kill -KILL $pid
done
echo cut
"""


def ended_run(host: Host, run_id: str) -> dict[str, Any]:
    """Return the result that the host's own program has written, an empty one before."""
    text = host.sh(f"cat {STATE}/runs/{run_id}/result.json 2>/dev/null", check=False)
    return dict(json.loads(text)) if text else {}


def assert_restored(lab: Lab, host: Host, run_id: str, before: str) -> None:
    result = until(lambda: ended_run(host, run_id), 60, "the host has restored itself")
    assert (result["state"], result["reason"]) == ("restored", "crash")
    assert host.sql("SELECT v FROM survivors.t WHERE id = 4711") == "a row"
    assert not host.effective("libcrash")
    assert host.tree(BYTES) == before

    following = lab.tune(host.name, allocator_name="system")

    assert following.rc == 0, following.out
    assert f"the last run {run_id} ended as restored" in following.said
    assert "libcrash.so" in following.said
    assert following.counted(host.name, "changed") == 0


@pytest.fixture
def survivors(crash: Path) -> Callable[[Host], str]:
    """Put the library and a row on a host; return the bytes that must come back."""

    def prepared(host: Host) -> str:
        host.copy(crash, LIBRARY)
        host.sql(
            "CREATE DATABASE IF NOT EXISTS survivors; USE survivors;"
            "CREATE TABLE IF NOT EXISTS t (id int primary key, v varchar(9)) ENGINE=InnoDB;"
            "REPLACE INTO t VALUES (4711, 'a row');"
        )
        return host.tree(BYTES)

    return prepared


def test_the_host_restores_itself_when_the_controller_is_killed(
    lab: Lab, deb12: Host, survivors: Callable[[Host], str]
) -> None:
    before = survivors(deb12)
    watcher = deb12.start(RESTART_BEGAN)
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"
    controller = lab.start("tune.yml", "deb12", allocator_name=LIBRARY, tuning_run_id="killed")

    assert watcher.stdout.readline() == "began\n"
    assert controller.poll() is None
    kill_group(controller)
    watcher.communicate()

    assert_restored(lab, deb12, "killed", before)


def test_the_host_restores_itself_when_ssh_is_cut(
    lab: Lab, safe12: Host, survivors: Callable[[Host], str]
) -> None:
    before = survivors(safe12)
    watcher = safe12.start(RESTART_BEGAN + CUT)
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"
    controller = lab.start("tune.yml", "safe12", allocator_name=LIBRARY, tuning_run_id="cut")

    assert watcher.stdout.readline() == "began\n"
    assert watcher.stdout.readline() == "cut\n"
    watcher.communicate()
    out, _ = controller.communicate(timeout=120)

    assert controller.returncode != 0 and "unreachable=1" in out, out
    assert_restored(lab, safe12, "cut", before)
