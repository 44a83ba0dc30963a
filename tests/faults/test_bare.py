# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that somebody has started by hand: nothing would start it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import PID, Host, Lab

BY_HAND = """
systemctl stop mariadb
install -d -o mysql -g mysql /run/mysqld
setsid /usr/sbin/mariadbd --user=mysql </dev/null >/dev/null 2>&1 &
timeout 60 sh -c 'until mariadb -e "DO 1" 2>/dev/null; do sleep 0.1; done'
"""
BACK = f"kill $({PID}); timeout 60 sh -c 'while pgrep -x mariadbd >/dev/null; do sleep 0.1; done'; systemctl start mariadb"


@pytest.fixture
def by_hand(deb12: Host) -> Iterator[Host]:
    try:
        deb12.sh(BY_HAND)
        yield deb12
    finally:
        deb12.sh(BACK)


@pytest.mark.fault("server started by hand, outside of every launcher")
@pytest.mark.quick
def test_a_server_that_nothing_would_start_again_is_refused(lab: Lab, by_hand: Host) -> None:
    """Refused with instructions; untouched; reason launcher_mismatch."""
    before, pid = by_hand.tree(), by_hand.pid()
    done = lab.tune("deb12")
    assert done.rc != 0 and done.counted("deb12", "failed") == 1, done.out
    assert (
        "(launcher bare): nothing would start it again after a stop. Run it from a systemd unit" in done.said
    ), done.out
    assert (by_hand.tree(), by_hand.pid()) == (before, pid)
