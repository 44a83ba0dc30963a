# SPDX-License-Identifier: GPL-3.0-or-later
"""A library that passes the flight test, and with which the real server does not come up."""

from __future__ import annotations

import pytest
from live import Host, Lab
from spoiled import LIBRARY, Spoiled


@pytest.fixture(params=["deb12", "safe12"])
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.getfixturevalue(request.param)
    return found


@pytest.mark.fault("library crashes mysqld at its start")
@pytest.mark.quick
def test_a_server_that_crashes_at_its_start_is_put_back(lab: Lab, host: Host) -> None:
    """Restored and restarted on the old bytes; reason crash, with the launcher's words."""
    spoiled = Spoiled(lab, host)

    done = spoiled.tune()

    said = "Control process exited" if host.name == "safe12" else "status=6/ABRT"
    spoiled.assert_restored(
        done, "crash", f"crashed when it was restarted with {LIBRARY}", said, "Everything was put back"
    )


@pytest.mark.fault("library hangs mysqld")
@pytest.mark.quick
def test_a_server_that_hangs_at_its_start_is_put_back(lab: Lab, host: Host) -> None:
    """Killed when activate_timeout is over, restored; reason hang."""
    spoiled = Spoiled(lab, host, "-DHANG")

    done = spoiled.tune(activate_timeout=4)

    spoiled.assert_restored(
        done,
        "hang",
        f"hung when it was restarted with {LIBRARY} (no answer within",
        "Everything was put back",
    )


@pytest.mark.fault("server that accepts connections but not queries")
@pytest.mark.quick
def test_a_server_that_accepts_connections_but_does_not_answer_is_put_back(lab: Lab, host: Host) -> None:
    """Connections are no answer: killed, restored; reason hang."""
    spoiled = Spoiled(lab, host, "-DMUTE")

    done = spoiled.tune(activate_timeout=4)

    spoiled.assert_restored(
        done,
        "hang",
        f"hung when it was restarted with {LIBRARY} (no answer within",
        "Everything was put back",
    )
