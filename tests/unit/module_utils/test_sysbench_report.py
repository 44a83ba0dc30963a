# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_report import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sysbench"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())
SINGLE = sorted(name for name, value in EXPECTED.items() if isinstance(value, dict) and "version" in value)
NOT_IN_THE_TEXT = {"note", "rc", "status", "test", "errors"}


def text_of(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", SINGLE)
def test_every_value_of_a_sample_report_is_found(name: str) -> None:
    (report,) = parse(text_of(name))
    wanted = {key: value for key, value in EXPECTED[name].items() if key not in NOT_IN_THE_TEXT}
    assert {key: report.get(key, "absent") for key in wanted} == wanted


@pytest.mark.parametrize("name", SINGLE)
def test_a_sample_report_is_complete_unless_it_was_cut_or_failed(name: str) -> None:
    (report,) = parse(text_of(name))
    assert report["complete"] is EXPECTED[name].get("complete", True)
    assert report["layout"] == "1.0"


def test_the_kind_of_test_is_told_from_the_sections() -> None:
    kinds = {
        name: parse(text_of(name))[0]["kind"]
        for name in ("09-1.0.20-plain", "17-1.0.20-cpu", "19-1.0.20-fileio")
    }
    assert list(kinds.values()) == ["sql", "cpu", "fileio"]


def test_a_lost_server_gives_the_error_number_and_keeps_the_lines_before() -> None:
    (report,) = parse(text_of("31-1.0.20-server-lost"))
    assert report["error_numbers"] == [2013]
    assert report["fatal"] and len(report["errors"]) == 2
    assert "Lost connection" in report["errors"][0]


@pytest.mark.parametrize(
    "line",
    [
        "FATAL: unable to connect to MySQL server on socket '/x.sock', aborting... error 2002: Can't connect",
        'FATAL: MySQL error: 1461 "Can\'t create more than max_prepared_stmt_count statements"',
        "FATAL: `thread_run' function failed: /x.lua:432: SQL error, errno = 1461, state = '42000': text",
        "ALERT: Error 1461 text",
    ],
)
def test_each_wording_of_a_server_error_gives_its_number(line: str) -> None:
    (report,) = parse("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n" + line)
    assert report["error_numbers"][0] in (1461, 2002)


def test_a_forced_shutdown_is_marked() -> None:
    (report,) = parse(text_of("32-1.0.20-forced-shutdown"))
    assert report["forced"] and report["unfinished"] == 4


def test_two_runs_in_one_file_are_two_reports() -> None:
    reports = parse(text_of("35-two-runs-one-file"))
    assert [(r["threads"], r["transactions"], r["complete"]) for r in reports] == [
        (2, 900, True),
        (4, 1500, True),
    ]


def test_no_output_is_no_report() -> None:
    assert parse(text_of("36-1.0.20-verbosity0")) == []


@pytest.mark.parametrize("name", ["02-0.4.12-rw-maxrequests", "16-1.1-plain"])
def test_the_layout_of_another_generation_is_unknown_and_never_complete(name: str) -> None:
    (report,) = parse(text_of(name))
    assert report["layout"] == "unknown" and report["complete"] is False
    assert "another generation" in report["warnings"][0]


def test_a_checkpoint_is_kept_apart_from_the_last_block() -> None:
    (report,) = parse(text_of("14-1.0.20-checkpoint"))
    assert report["checkpoints"][0]["transactions"] == 6000 and report["transactions"] == 3050
    assert any("checkpoint" in warning for warning in report["warnings"])


def test_a_flood_of_alerts_is_capped_and_its_repeats_do_no_harm() -> None:
    text = text_of("09-1.0.20-plain").replace(
        "SQL statistics:", "ALERT: queue full\n" * 5000 + "SQL statistics:"
    )
    (report,) = parse(text.replace("SQL statistics:", "(last message repeated 3 times)\nSQL statistics:"))
    assert len(report["errors"]) == 50 and report["complete"] and report["tps"] == 608.19


def test_a_number_that_is_none_is_left_empty() -> None:
    (report,) = parse(text_of("09-1.0.20-plain").replace("13.15", "-nan"))
    assert report["lat_avg_ms"] is None


@pytest.mark.parametrize("cut", range(0, 1200, 37))
def test_a_report_cut_anywhere_is_parsed_without_an_error_and_incomplete(cut: int) -> None:
    assert all(not report["complete"] for report in parse(text_of("09-1.0.20-plain")[:cut]))


def test_a_day_of_seconds_is_parsed_in_about_a_second() -> None:
    line = "[ {}s ] thds: 4 tps: 820.10 qps: 16402.00 (r/w/o: 11481.40/3280.40/1640.20) lat (ms,95%): 7.30"
    text = "sysbench 1.0.20 (x)\n" + "\n".join(line.format(second) for second in range(86400))
    begun = time.process_time()
    (report,) = parse(text)
    assert len(report["intervals"]) == 86400
    assert time.process_time() - begun < 4  # about 1 s alone; the bound only catches a slow algorithm
