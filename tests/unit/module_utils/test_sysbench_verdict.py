# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_report import parse
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_verdict import (
    Asked,
    judge,
    remarks,
    spread,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sysbench"
HALF_A_MINUTE = Asked(30)
PLAIN = (FIXTURES / "09-1.0.20-plain.txt").read_text()


def verdict(text: str, rc: int = 0, asked: Asked = HALF_A_MINUTE) -> tuple[bool, str | None]:
    judgement = judge(parse(text), rc, asked)
    assert judgement.valid is not bool(judgement.message)
    return judgement.valid, judgement.reason


def sample(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def test_a_whole_report_of_the_requested_length_is_valid() -> None:
    assert verdict(PLAIN) == (True, None)


@pytest.mark.parametrize(
    ("text", "rc", "asked", "reason"),
    [
        (sample("36-1.0.20-verbosity0"), 0, Asked(30), "no_report"),
        (sample("35-two-runs-one-file"), 0, Asked(3), "several_reports"),
        (sample("34-1.0.20-truncated"), 0, Asked(30), "incomplete"),
        (sample("32-1.0.20-forced-shutdown"), 2, Asked(10), "forced_shutdown"),
        (sample("31-1.0.20-server-lost"), 1, Asked(30), "exit_code"),
        (sample("16-1.1-plain"), 0, Asked(30), "unknown_layout"),
        (sample("02-0.4.12-rw-maxrequests"), 0, Asked(30), "unknown_layout"),
        (PLAIN, -11, Asked(30), "killed"),
        (PLAIN, 0, Asked(30, killed_after=100.0), "timeout"),
        (PLAIN, 0, Asked(4), "overrun"),
        (PLAIN, 0, Asked(60), "ended_early"),
        (PLAIN.replace("events:              18250", "events:              0"), 0, Asked(30), "no_events"),
        (PLAIN.replace("1      (0.03", "900    (0.03"), 0, Asked(30), "ignored_errors"),
        (
            PLAIN.replace("reconnects:                          0", "reconnects: 3"),
            0,
            Asked(30),
            "reconnects",
        ),
        (PLAIN.replace("SQL statistics:", "FATAL: odd\nSQL statistics:"), 0, Asked(30), "fatal"),
    ],
)
def test_what_makes_a_run_not_count_is_named(text: str, rc: int, asked: Asked, reason: str) -> None:
    assert verdict(text, rc, asked) == (False, reason)


def test_a_run_that_was_to_end_after_some_events_may_end_early() -> None:
    assert verdict(PLAIN, asked=Asked(60, events=18250)) == (True, None)


def test_the_first_error_of_sysbench_is_in_the_message() -> None:
    assert "Lost connection" in judge(parse(sample("31-1.0.20-server-lost")), 1, Asked(30)).message


def lines(values: list[float]) -> list[dict[str, Any]]:
    return [{"t": second, "tps": value} for second, value in enumerate(values, 1)]


def test_the_spread_leaves_the_first_five_seconds_out() -> None:
    found = spread(lines([1.0] * 5 + [100.0] * 10))
    assert found is not None
    assert (found["samples"], found["median"], found["p10"], found["p90"], found["drift"]) == (
        10,
        100.0,
        100.0,
        100.0,
        0.0,
    )


def test_the_spread_says_that_it_is_within_one_run() -> None:
    found = spread(lines([float(value) for value in range(1, 40)]))
    assert found is not None and found["what"] == "spread within the run"


def test_a_few_seconds_have_no_spread() -> None:
    assert spread(lines([5.0] * 10)) is None


def test_a_run_that_had_not_settled_is_remarked() -> None:
    report = {"intervals": lines([100.0] * 15 + [150.0] * 10), "ignored_errors": 2}
    found = remarks(report, spread(report["intervals"]))  # type: ignore[arg-type]
    assert "not settled" in found[0] and "deadlocks" in found[1]


def test_a_stalled_second_is_remarked() -> None:
    (report,) = parse(sample("10-1.0.20-interval-with-stall"))
    assert "no transaction ended in 1 interval(s), the first at 3 s" in remarks(report, None)
