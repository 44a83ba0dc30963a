# SPDX-License-Identifier: GPL-3.0-or-later
"""A running server whose unit is masked could not be started again, so it is not stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import BYTES, Host, Lab
from spoiled import LIBRARY, module, put_library, staged

UNITS = {"deb12": "mariadb.service", "safe12": "mysql.service"}


@pytest.fixture(params=sorted(UNITS))
def masked(request: pytest.FixtureRequest) -> Iterator[Host]:
    host: Host = request.getfixturevalue(request.param)
    host.sh(f"systemctl mask {UNITS[host.name]}")
    yield host
    host.sh(f"systemctl unmask {UNITS[host.name]}")


@pytest.mark.fault("masked unit")
@pytest.mark.quick
def test_a_masked_unit_is_refused_with_the_command_to_run(lab: Lab, masked: Host) -> None:
    """Refused before anything is staged, with the command that unmasks it."""
    unit, before = UNITS[masked.name], (masked.tree(), masked.pid())

    done = lab.tune(masked.name)

    assert done.rc != 0 and done.counted(masked.name, "failed") == 1, done.out
    assert f"{unit} is masked" in done.said and f"Run systemctl unmask {unit}" in done.said, done.out
    assert (masked.tree(), masked.pid()) == before


@pytest.mark.fault("unit masked after its files were staged")
@pytest.mark.quick
def test_a_unit_that_is_masked_after_its_files_were_staged_is_left_alone(lab: Lab, deb12: Host) -> None:
    """Not restarted; the files are put back; the message has systemd's words."""
    put_library(deb12)
    before, pid = deb12.tree(BYTES), deb12.pid()
    instances = staged(lab, deb12, "masked", LIBRARY)
    deb12.sh("systemctl mask mariadb")
    try:
        result = module(lab, deb12, "mysqld_activate", run_id="masked", instances=instances)
    finally:
        deb12.sh("systemctl unmask mariadb")

    assert (result["state"], result["reason"]) == ("restored", "launcher_mismatch"), result
    assert "Unit mariadb.service is masked" in result["msg"]
    assert result["instances"][0]["downtime"] == 0.0
    assert (deb12.tree(BYTES), deb12.pid()) == (before, pid)
