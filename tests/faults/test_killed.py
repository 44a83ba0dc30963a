# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL at every call with which a module or the transaction's program changes the file system, as strace counts them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from live import SAFE, STATE, Host
from on_host import HOME, LIBRARY, PYTHON, call, prepared

ENV = "/etc/fleet-mysqltune"
UNITS = "/etc/systemd/system"

# What must be the same once more after each recovery: a server that answers, with the preload that it had.
SETTLE = "mariadb -NBe 'SELECT 1'; tr '\\0' '\\n' </proc/$(pgrep -x 'mariadbd|mysqld' | head -1)/environ | grep LD_PRELOAD"


def killed_everywhere(
    host: Host, command: list[str], paths: list[str], prepare: list[list[str]], recover: list[str]
) -> dict[str, Any]:
    todo = {
        "paths": paths,
        "prepare": prepare,
        "command": command,
        "recover": recover,
        "settle": ["sh", "-c", SETTLE],
    }
    host.put(f"{HOME}/todo.json", json.dumps(todo))
    out = host.sh(f"{PYTHON} {HOME}/at_every_call.py loop <{HOME}/todo.json", timeout=3000)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found["faults"] == [], "\n".join(found["faults"])
    assert found["killed"] > 20, found
    assert {"write", "rename", "fsync", "unlink"} <= set(found["calls"]), found
    return found


OPENED = call("tuning_journal", state="opened", run_id="killed")
RESTORED = call("tuning_journal", state="restored", run_id="killed")
PATCHED = call("mysqld_safe_preload", path=SAFE, library=LIBRARY, run_id="killed")
DROPPED_IN = call("systemd_preload", unit="mariadb.service", library=[LIBRARY], run_id="killed")


@pytest.mark.quick
@pytest.mark.fault("module killed at every write, rename, fsync and unlink")
def test_mysqld_safe_preload_killed_anywhere(safe12: Host, bundle: Path) -> None:
    """mysqld_safe_preload: the script is the old or the new one as a whole, and the undo gives the old one back."""
    host = prepared(safe12, bundle, "strace")
    killed_everywhere(host, PATCHED, [SAFE, str(Path(SAFE).parent)], [OPENED], RESTORED)


@pytest.mark.fault("module killed at every write, rename, fsync and unlink")
def test_systemd_preload_killed_anywhere(deb12: Host, bundle: Path) -> None:
    """systemd_preload: each file is the old or the new one as a whole, and the undo takes the new ones away."""
    host = prepared(deb12, bundle, "strace")
    killed_everywhere(host, DROPPED_IN, [ENV, UNITS], [OPENED], RESTORED)


@pytest.mark.fault("module killed at every write, rename, fsync and unlink")
def test_an_undo_killed_anywhere_is_done_again(deb12: Host, bundle: Path) -> None:
    """tuning_journal: an undo that was killed is simply done again."""
    host = prepared(deb12, bundle, "strace")
    killed_everywhere(host, RESTORED, [ENV, UNITS], [OPENED, DROPPED_IN], RESTORED)


@pytest.mark.fault("transaction killed at every write, rename, fsync and unlink")
def test_the_transaction_killed_anywhere_is_undone_by_the_host(deb12: Host, bundle: Path) -> None:
    """mysqld_activate's program, before, in and after the restart: the host's own undo brings files and server back."""
    host = prepared(deb12, bundle, "strace")
    observed = host.sh(f"PYTHONPATH={HOME} {shlex.join(call('mysqld_info'))}")
    (instance,) = json.loads(observed)["mysqld"]["instances"]
    instances = json.dumps([dict(instance, library=LIBRARY)])
    program = [PYTHON, f"{HOME}/at_every_call.py", "program", "killed", instances]
    undo = [f"{STATE}/undo", "killed"]
    killed_everywhere(host, program, [ENV, UNITS], [OPENED, DROPPED_IN], undo)
