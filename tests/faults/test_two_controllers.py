# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from live import STATE, Host, Lab, Survivors, until


@pytest.mark.quick
@pytest.mark.fault("two controllers at once")
def test_a_second_controller_is_refused_and_told_which_run_is_at_work(lab: Lab, deb12: Host) -> None:
    """The second is refused with the first one's run and holder; the first goes on as if nothing had been."""
    rows = Survivors(deb12)
    first = lab.start("tune.yml", "deb12", tuning_run_id="the-first", activate_settle=15)
    until(
        lambda: "the-first" in deb12.sh(f"cat {STATE}/lease* 2>/dev/null", check=False),
        60,
        "the first has the lease",
    )

    second = lab.tune("deb12", tuning_run_id="the-second")
    undone = lab.play("rollback.yml", "deb12")
    still_at_work = first.poll() is None
    out, _ = first.communicate(timeout=120)

    assert still_at_work and second.rc != 0 and undone.rc != 0, second.out + undone.out
    assert "run the-first (" in second.said and "is at work on this host" in second.said
    assert second.counted("deb12", "changed") == 0
    assert first.returncode == 0, out
    assert deb12.effective()
    assert not deb12.sh(f"ls -d {STATE}/runs/the-second 2>/dev/null", check=False)
    assert rows.lost() == ""
