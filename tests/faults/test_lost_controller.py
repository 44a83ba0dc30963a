# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller is killed, or the connection cut: while files are staged, in the restart, right after the commit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from live import BYTES, PID, STATE, Host, Lab, Survivors, kill_group, until
from spoiled import LIBRARY, Spoiled

RUN = "lost"
STAGED = "for i in $(seq 6000); do [ -e /etc/fleet-mysqltune/mariadb.service.env ] && break; sleep 0.01; done"
RESTARTING = f"old=$({PID}); for i in $(seq 6000); do [ -e /proc/$old ] || break; sleep 0.01; done"
COMMITTED = f"for i in $(seq 6000); do [ -e {STATE}/runs/{RUN}/result.json ] && break; sleep 0.01; done"

# End every SSH session but the one that this runs in.
CUT = """
own=; pid=$$
while [ "$pid" -gt 1 ]; do own="$own $pid"; pid=$(sed -n 's/^PPid:\\t//p' /proc/$pid/status); done
for pid in $(pgrep -x 'sshd|sshd-session'); do
  case " $own " in *" $pid "*) continue ;; esac
  tr '\\0' ' ' </proc/$pid/cmdline | grep -q 'sshd: ' && kill -KILL $pid
done
"""

Loss = Callable[[subprocess.Popen[str]], None]


def killed(controller: subprocess.Popen[str]) -> None:
    assert controller.poll() is None
    kill_group(controller)


def cut(controller: subprocess.Popen[str]) -> None:
    out, _ = controller.communicate(timeout=120)
    assert controller.returncode != 0 and "unreachable=1" in out, out
    assert "report: " in out and "1 host: " in out, out  # although Ansible ends the run there and then


losses = pytest.mark.parametrize(("loss", "script"), [(killed, ""), (cut, CUT)], ids=["killed", "cut"])


def lose(lab: Lab, host: Host, moment: str, loss: Loss, script: str, library: str) -> None:
    """Run tune.yml, and lose it when the moment has come."""
    watcher = host.start(f"echo watching\n{moment}\n{script}\necho now\n")
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"
    controller = lab.start("tune.yml", host.name, allocator_name=library, tuning_run_id=RUN)
    assert watcher.stdout.readline() == "now\n"
    loss(controller)
    watcher.communicate()


def ended(host: Host) -> dict[str, Any]:
    """Return the result that the host's own program has written, an empty one before."""
    text = host.sh(f"cat {STATE}/runs/{RUN}/result.json 2>/dev/null", check=False)
    return dict(json.loads(text)) if text else {}


@pytest.mark.quick
@pytest.mark.fault("controller killed, or SSH cut, before the restart")
@losses
def test_what_was_staged_is_undone_on_the_host(lab: Lab, deb12: Host, loss: Loss, script: str) -> None:
    """Nobody restarts the server on what was staged; the host's own undo takes it back."""
    spoiled = Spoiled(lab, deb12)
    lose(lab, deb12, STAGED, loss, script, LIBRARY)

    said = deb12.sh(f"{STATE}/undo {RUN}")

    assert f"{RUN} undone" in said
    assert deb12.tree(BYTES) == spoiled.before
    assert not deb12.effective("libbad")
    assert spoiled.rows.lost() == ""


@pytest.mark.quick
@pytest.mark.fault("controller killed, or SSH cut, during the restart")
@losses
def test_the_host_restores_itself(lab: Lab, deb12: Host, loss: Loss, script: str) -> None:
    """The host ends its transaction by itself, here in the old state; the next run tells what happened."""
    spoiled = Spoiled(lab, deb12)
    lose(lab, deb12, RESTARTING, loss, script, LIBRARY)

    result = until(lambda: ended(deb12), 60, "the host has restored itself")
    following = lab.tune("deb12", allocator_name="system")

    assert (result["state"], result["reason"]) == ("restored", "crash")
    assert deb12.tree(BYTES) == spoiled.before
    assert not deb12.effective("libbad")
    assert following.rc == 0 and following.counted("deb12", "changed") == 0, following.out
    assert f"the last run {RUN} ended as restored" in following.said and LIBRARY in following.said
    assert spoiled.rows.lost() == ""


@pytest.mark.fault("controller killed, or SSH cut, right after the restart")
@losses
def test_what_was_committed_stays_and_can_be_undone(lab: Lab, deb12: Host, loss: Loss, script: str) -> None:
    """The server stays as asked, the next run has nothing to do, and rollback.yml by the run's name gives all back."""
    before, rows = deb12.tree(BYTES), Survivors(deb12)
    lose(lab, deb12, COMMITTED, loss, script, "tcmalloc")

    following = lab.tune("deb12", allocator_name="tcmalloc", tuning_run_id="next")
    assert following.rc == 0 and following.counted("deb12", "changed") == 0, following.out
    assert deb12.effective() and ended(deb12)["state"] == "committed"

    undone = lab.play("rollback.yml", "deb12", tuning_run_id=RUN)
    assert undone.rc == 0, undone.out
    assert not deb12.effective() and deb12.tree(BYTES) == before
    assert rows.lost() == ""
