# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any, List

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import lease


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_a_live_lease_refuses_another_run_and_names_it(root: str) -> None:
    lease.take("run-1", root, holder="ann from 192.0.2.1")
    with pytest.raises(lease.LeaseHeld, match=r"run run-1 \(ann from 192.0.2.1\) holds this host until 20"):
        lease.take("run-2", root)
    with pytest.raises(lease.LeaseHeld):
        lease.check("run-2", root)


def test_the_same_run_renews_its_lease_and_keeps_its_holder(root: str) -> None:
    first = lease.take("run-1", root, holder="ann")
    second = lease.take("run-1", root)
    assert second.renewed >= first.renewed and second.holder == "ann"


def test_an_expired_lease_can_be_taken(root: str) -> None:
    lease.take("run-1", root, ttl=-1)
    assert lease.take("run-2", root).run_id == "run-2"


def test_another_boot_ends_a_lease(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lease.take("run-1", root)
    monkeypatch.setattr(lease, "boot_id", lambda: "another boot")
    held = lease.current(root)
    assert held and not held.live
    assert lease.take("run-2", root).run_id == "run-2"


@pytest.mark.parametrize("step", [-86400 * 365, 86400 * 365])
def test_a_stepped_clock_neither_ends_nor_prolongs_a_lease(
    root: str, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    lease.take("run-1", root)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + step)
    held = lease.current(root)
    assert held and held.live and held.remaining == pytest.approx(lease.TTL, abs=5)
    assert held.as_dict()["expires"] == pytest.approx(now + step + lease.TTL, abs=5)


def test_release_gives_only_the_own_lease_back(root: str) -> None:
    lease.take("run-1", root)
    assert lease.release("run-2", root) is False
    assert lease.release("run-1", root) is True
    assert lease.release("run-1", root) is False
    assert lease.take("run-2", root).run_id == "run-2"


def test_a_lease_file_that_is_no_lease_counts_as_none(root: str) -> None:
    lease.ensure_root(root)
    Path(root, "lease.json").write_text("{}")
    assert lease.current(root) is None


def contend(root: str, name: str, barrier: Any, winners: Any) -> None:
    barrier.wait()
    try:
        lease.take(name, root)
        winners.put(name)
    except lease.LeaseHeld:
        pass


def test_of_many_runs_at_once_exactly_one_gets_the_lease(root: str) -> None:
    context = multiprocessing.get_context("fork")
    barrier, winners = context.Barrier(8), context.Queue()
    runs: List[Any] = [
        context.Process(target=contend, args=(root, f"run-{n}", barrier, winners)) for n in range(8)
    ]
    for process in runs:
        process.start()
    for process in runs:
        process.join()
    won = winners.get(timeout=5)
    assert winners.empty()
    held = lease.current(root)
    assert held and held.run_id == won
