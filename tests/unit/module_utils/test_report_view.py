# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

from ansible_collections.fleet.mysqltune.plugins.module_utils.report_table import lines
from ansible_collections.fleet.mysqltune.plugins.module_utils.report_view import summary, view


def instance(**other: Any) -> dict[str, Any]:
    known = {"name": "mariadb.service", "launcher": "systemd", "method": "systemd", "level": "effective"}
    return {**known, "allocator_before": "system", "allocator_after": "tcmalloc", "downtime": 1.44, **other}


def benchmark(phase: str, tps: float, **other: Any) -> dict[str, Any]:
    asked = {"threads": 4, "duration": 60}
    intervals = [{"t": second, "tps": tps} for second in range(1, 301)]
    known = {"instance": "mariadb.service", "phase": phase, "tps": tps, "valid": True, "asked": asked}
    return {**known, "intervals": intervals, **other}


def host(name: str, status: str = "tuned", **other: Any) -> dict[str, Any]:
    return {
        "host": name,
        "status": status,
        "message": "",
        "instances": [instance()],
        "benchmarks": [],
        **other,
    }


def compared(*benchmarks: dict[str, Any]) -> dict[str, Any]:
    shown = view("r", [host("a", benchmarks=list(benchmarks))], "now")
    found: dict[str, Any] = shown["hosts"][0]["instances"][0]["comparison"]
    return found


def test_one_run_each_is_never_judged_and_the_difference_is_shown() -> None:
    found = compared(benchmark("before", 100.0), benchmark("after", 200.0))
    assert (found["verdict"], found["change"]) == ("insufficient", 1.0)
    assert found["reason"] == "one run each is a look, not a proof: at least 6 pairs are needed"


def test_a_run_that_does_not_count_makes_the_comparison_invalid() -> None:
    found = compared(benchmark("before", 100.0), benchmark("after", 1.0, valid=False, message="it stalled"))
    assert (found["verdict"], found["change"]) == ("invalid", None)
    assert "after the change does not count: it stalled" in found["reason"]


def test_a_missing_run_is_named() -> None:
    assert "no run after" in compared(benchmark("before", 100.0))["reason"]


def test_runs_of_different_settings_cannot_be_compared() -> None:
    found = compared(benchmark("before", 1.0), benchmark("after", 1.0, asked={"threads": 8}))
    assert found["verdict"] == "invalid"


def test_hosts_in_trouble_come_first_and_the_headline_counts() -> None:
    shown = view("r", [host("a"), host("b", "unchanged"), host("c", "failed", instances=[])], "now")
    assert [item["host"] for item in shown["hosts"]] == ["c", "a", "b"]
    assert (
        shown["headline"] == "3 hosts: 1 tuned and proved effective, 1 needed no change, 1 needs attention."
    )


def test_nothing_that_the_report_does_not_know_gets_into_it() -> None:
    secret = host("a", password="geheim", instances=[instance(environ="geheim")])
    secret["benchmarks"] = [benchmark("before", 1.0, password="geheim")]
    assert "geheim" not in json.dumps(view("r", [secret], "now"))


def test_the_curve_is_thinned_and_left_out_of_the_summary() -> None:
    shown = view("r", [host("a", benchmarks=[benchmark("before", 1.0)])], "now")
    assert len(shown["hosts"][0]["instances"][0]["comparison"]["before"]["curve"]) <= 120
    assert "curve" not in json.dumps(summary(shown))


def test_the_table_has_one_line_per_instance_and_only_columns_that_say_something() -> None:
    shown = view(
        "r", [host("a", "unchanged", instances=[instance(downtime=None, allocator_before="tcmalloc")])], "now"
    )
    assert lines(shown)[:2] == [
        "host  instance  launcher  allocator  level      result",
        "a     mariadb   systemd   tcmalloc   effective  unchanged",
    ]


def test_the_table_shows_before_and_after() -> None:
    both = [benchmark("before", 1813.0), benchmark("after", 1843.0)]
    table = lines(view("r", [host("a", benchmarks=both)], "now"))
    assert "system -> tcmalloc" in table[1] and "1.4 s" in table[1] and "1813 -> 1843 (+1.7 %)" in table[1]
    assert table[1].endswith("tuned   insufficient")


def test_the_table_is_plain_ascii_whatever_a_host_is_called() -> None:
    table = "\n".join(lines(view("r", [host("h\u00fc\x1b[2J", "failed", message="a\x07b")], "now")))
    assert table.isascii() and "\x1b" not in table and "\x07" not in table


def test_the_message_of_a_host_in_trouble_is_below_the_table() -> None:
    table = lines(view("r", [host("c", "unreachable", message="no route", instances=[])], "now"))
    assert "c: unreachable: no route" in table


def test_notes_are_below_the_table_whatever_became_of_the_host() -> None:
    table = lines(view("r", [host("a", "unchanged", notes=["the last run x ended as restored"])], "now"))
    assert "a: the last run x ended as restored" in table
