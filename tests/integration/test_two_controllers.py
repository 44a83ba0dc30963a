# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from conftest import STATE, Host, Lab, until


def test_a_second_controller_is_refused_and_told_which_run_is_at_work(lab: Lab, deb13: Host) -> None:
    first = lab.start("tune.yml", "deb13", tuning_run_id="the-first", activate_settle=15)
    until(
        lambda: "the-first" in deb13.sh(f"cat {STATE}/lease* 2>/dev/null", check=False),
        60,
        "the first has the lease",
    )

    second = lab.tune("deb13", tuning_run_id="the-second")
    still_at_work = first.poll() is None
    out, _ = first.communicate(timeout=120)

    assert still_at_work and second.rc != 0, second.out
    assert "run the-first (" in second.said and "is at work on this host" in second.said
    assert second.counted("deb13", "changed") == 0
    assert first.returncode == 0, out
    assert deb13.effective()
    assert not deb13.sh(f"ls -d {STATE}/runs/the-second 2>/dev/null", check=False)
