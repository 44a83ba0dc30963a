# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_progress import (
    Progress,
    current,
    printable,
)


def progress(updating: bool) -> Progress:
    return Progress("deb12", "mariadb.service", "before", "oltp_read_write", 60.0, updating)


def test_the_line_has_host_instance_phase_test_percent_rate_and_time_left() -> None:
    assert (
        progress(True).text(30.0, 1843.4)
        == "deb12 mariadb.service: before oltp_read_write  50%, 1843 tps, 30 s left"
    )


def test_past_the_requested_time_the_end_is_awaited() -> None:
    assert progress(True).text(63.0, 10.0).endswith("100%, 10 tps, waiting for its end")


def test_plain_lines_come_every_fifteen_seconds() -> None:
    shown = progress(False)
    assert [second for second in range(5, 61, 5) if shown.due(float(second))] == [15, 30, 45, 60]


def test_a_line_that_can_be_rewritten_comes_at_every_poll() -> None:
    shown = progress(True)
    assert all(shown.due(float(second)) for second in range(5, 61, 5))


def test_the_rate_is_that_of_the_last_whole_line() -> None:
    line = "[ {}s ] thds: 4 tps: {} qps: 1.00 (r/w/o: 1.0/1.0/1.0) lat (ms,95%): 7.30 err/s: 0.00 reconn/s: 0.00\n"
    assert (
        current("7.30 err/s: 0\n" + line.format(8, "81.5") + line.format(9, "82.5") + "[ 10s ] thds: 4 t")
        == 82.5
    )
    assert current("nothing yet") is None


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31m\nb\u00e9") == "a?[31m?b?"


def test_the_last_line_says_why_a_run_does_not_count() -> None:
    assert "does not count: it stalled" in progress(False).end(
        {"valid": False, "message": "it stalled", "reason": "x"}
    )
