# SPDX-License-Identifier: GPL-3.0-or-later
"""A wave of two hosts with a library that crashes both servers: each puts itself back, and the run ends."""

from __future__ import annotations

import pytest
from live import Host, Lab
from spoiled import LIBRARY, Spoiled


@pytest.mark.fault("library crashes every server of a wave")
def test_a_wave_that_crashes_on_every_host_ends_and_is_told_host_by_host(
    lab: Lab, deb12: Host, safe12: Host
) -> None:
    """Each host restores itself; the table says so host by host."""
    hosts = [Spoiled(lab, host) for host in (deb12, safe12)]

    done = lab.tune("deb12:safe12", allocator_name=LIBRARY, tuning_run_id="spoiled")

    assert "2 hosts: 2 need attention" in done.said, done.out
    for spoiled, said in zip(hosts, ("status=6/ABRT", "Control process exited"), strict=True):
        name = spoiled.host.name
        assert f"{name}: restored: " in done.said
        spoiled.assert_restored(done, "crash", f"crashed when it was restarted with {LIBRARY}", said)
