# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from live import BYTES, SAFE, Host, Lab


@pytest.mark.quick
def test_a_stopped_server_stays_stopped(lab: Lab, deb13: Host) -> None:
    deb13.sh("systemctl stop mariadb")
    try:
        before = deb13.tree()
        done = lab.tune("deb13")
        assert done.rc == 0, done.out
        assert "stopped" in done.said and done.counted("deb13", "changed") == 0
        assert deb13.sh("systemctl is-active mariadb", check=False) == "inactive"
        assert deb13.tree() == before
    finally:
        deb13.sh("systemctl start mariadb")


def test_verify_tells_below_effective_from_effective_and_rollback_undoes_once(lab: Lab, deb13: Host) -> None:
    virgin = deb13.tree(BYTES)
    below = lab.play("verify.yml", "deb13")
    assert below.rc != 0 and "deb13: not tuned: preload" in below.said, below.out
    assert below.counted("deb13", "changed") == 0 and deb13.tree(BYTES) == virgin

    tuned = lab.tune("deb13")
    assert tuned.rc == 0, tuned.out
    above = lab.play("verify.yml", "deb13")
    assert above.rc == 0 and "1 host: 1 as asked" in above.said, above.out

    first = lab.play("rollback.yml", "deb13")
    assert first.rc == 0 and first.counted("deb13", "changed") == 1, first.out
    assert deb13.tree(BYTES) == virgin and not deb13.effective()

    undone = deb13.tree(), deb13.pid()
    second = lab.play("rollback.yml", "deb13")
    assert second.rc == 0 and second.counted("deb13", "changed") == 0, second.out
    assert (deb13.tree(), deb13.pid()) == undone


def test_rollback_takes_only_our_block_out_of_a_script_that_was_edited_since(lab: Lab, safe12: Host) -> None:
    edit = "# the night shift was here"
    virgin = safe12.sh(f"cat {SAFE}")
    tuned = lab.tune("safe12")
    assert tuned.rc == 0 and safe12.effective(), tuned.out
    safe12.sh(f"sed -i '2i {edit}' {SAFE}")
    try:
        done = lab.play("rollback.yml", "safe12")
        lines = virgin.split("\n")
        assert done.rc == 0, done.out
        assert safe12.sh(f"cat {SAFE}").split("\n") == [lines[0], edit, *lines[1:]]
        assert not safe12.effective()
    finally:
        safe12.sh(f"sed -i '/^{edit}$/d' {SAFE}")
