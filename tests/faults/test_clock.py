# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from live import BYTES, SAFE, STATE, Host
from on_host import HOME, LIBRARY, call, prepared

OTHER = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
YEAR = 365 * 86400
AHEAD, BEHIND = YEAR, -YEAR

# What Python runs before anything else: the wall clock is wrong, the monotonic one is not.
WRONG = """
import os, time
right = time.time
time.time = lambda: right() + int(os.environ["CLOCK_IS_WRONG_BY"])
"""


def at(host: Host, clock: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Run a module whose clock is wrong by so many seconds, and return its result."""
    environment = f"CLOCK_IS_WRONG_BY={clock} PYTHONPATH={HOME}/clock:{HOME}"
    out = host.sh(f"{environment} {shlex.join(call(name, **arguments))}", check=False)
    return dict(json.loads(out.splitlines()[-1]))


def deliver(host: Host, clock: int, run_id: str, library: str) -> None:
    for name, arguments in (
        ("tuning_journal", {"state": "opened"}),
        ("mysqld_safe_preload", {"path": SAFE, "library": library}),
        ("tuning_journal", {"state": "closed"}),
    ):
        done = at(host, clock, name, run_id=run_id, **arguments)
        assert not done.get("failed"), done


@pytest.mark.quick
@pytest.mark.fault("clock stepped by a year, forth and back (simulated: the clock of the modules alone)")
def test_neither_leases_nor_the_order_of_runs_depend_on_the_clock(safe12: Host, bundle: Path) -> None:
    """A lease neither ends nor lasts longer, and runs are undone in the order in which they were made."""
    prepared(safe12, bundle)
    safe12.sh(f"mkdir -p {HOME}/clock")
    safe12.put(f"{HOME}/clock/sitecustomize.py", WRONG)
    before = safe12.tree(BYTES)
    deliver(safe12, AHEAD, "first", LIBRARY)
    deliver(safe12, BEHIND, "second", OTHER)
    began = json.loads(safe12.sh(f"head -1 {STATE}/runs/first/journal.jsonl"))["time"]
    assert began > time.time() + YEAR / 2  # the clock was wrong indeed

    assert not at(safe12, BEHIND, "tuning_journal", state="opened", run_id="third").get("failed")
    refused = at(safe12, AHEAD, "tuning_journal", state="opened", run_id="fourth")
    assert refused["failed"] and "run third (" in refused["msg"], refused
    assert not at(safe12, AHEAD, "tuning_journal", state="closed", run_id="third").get("failed")

    assert "second undone" in safe12.sh(f"{STATE}/undo --files-only")
    assert LIBRARY in safe12.sh(f"cat {SAFE}") and OTHER not in safe12.sh(f"cat {SAFE}")
    assert "first undone" in safe12.sh(f"{STATE}/undo --files-only")
    assert safe12.tree(BYTES) == before
