# SPDX-License-Identifier: GPL-3.0-or-later
"""A package is upgraded between two runs."""

from __future__ import annotations

import pytest
from live import BYTES, SAFE, Host, Lab, Survivors


@pytest.mark.fault("server's package upgraded between two runs (the same version installed again)")
def test_what_a_package_does_not_own_survives_its_upgrade(lab: Lab, deb12: Host) -> None:
    """The drop-in is no file of the package: as asked before and after, and the undo gives the old bytes back."""
    before, rows = deb12.tree(BYTES), Survivors(deb12)
    assert lab.tune("deb12", allocator_name="tcmalloc").rc == 0
    deb12.sh(
        "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update </dev/null;"
        "apt-get -qq install -y --reinstall mariadb-server </dev/null >/dev/null 2>&1",
        timeout=300,
    )
    again = lab.tune("deb12", allocator_name="tcmalloc")
    assert again.rc == 0 and deb12.effective(), again.out
    assert lab.play("rollback.yml", "deb12").rc == 0
    assert not deb12.effective() and deb12.tree(BYTES) == before
    assert rows.lost() == ""


@pytest.mark.quick
@pytest.mark.fault("mysqld_safe upgraded between two runs")
def test_a_new_script_is_patched_again_and_the_undo_keeps_it(lab: Lab, safe12: Host) -> None:
    """tune.yml patches the new script; rollback.yml takes our block out of it and leaves the package's new bytes."""
    safe12.sh(f"cp -p {SAFE} /root/packaged")
    rows = Survivors(safe12)
    assert lab.tune("safe12", allocator_name="tcmalloc", tuning_run_id="first").rc == 0
    safe12.sh(f"{{ cat /root/packaged; echo '# a newer version'; }} >{SAFE}")
    upgraded = safe12.sh(f"sha256sum <{SAFE}")
    try:
        assert lab.tune("safe12", allocator_name="tcmalloc", tuning_run_id="second").rc == 0
        assert safe12.effective()
        undone = lab.play("rollback.yml", "safe12", tuning_run_id="second")
        assert undone.rc == 0, undone.out
        assert safe12.sh(f"sha256sum <{SAFE}") == upgraded
        older = lab.play("rollback.yml", "safe12", tuning_run_id="first")
        assert older.rc == 0, older.out
        assert safe12.sh(f"sha256sum <{SAFE}") == upgraded
        assert not safe12.effective()
    finally:
        safe12.sh(f"cp -p /root/packaged {SAFE}")
    assert rows.lost() == ""
