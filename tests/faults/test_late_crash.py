# SPDX-License-Identifier: GPL-3.0-or-later
"""A library with which the server comes up, proves it, and crashes under load some seconds later."""

from __future__ import annotations

import pytest
from live import Host, Lab
from spoiled import LIBRARY, Spoiled

SETTLE = 15


@pytest.fixture(params=["deb12", "safe12"])
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.getfixturevalue(request.param)
    return found


@pytest.mark.fault("library crashes mysqld some seconds later under load")
def test_a_server_that_crashes_while_it_settles_is_put_back(lab: Lab, host: Host) -> None:
    """A crash within the settle period counts as failed: restored; reason crash."""
    spoiled = Spoiled(lab, host, "-DLATER=3")

    done = spoiled.tune(activate_settle=SETTLE)

    spoiled.assert_restored(
        done, "crash", f"did not stay up with {LIBRARY}", "got signal 6", "Everything was put back"
    )
