# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_view import SCOPE, figure, lines, view

RATIO = {"median": 0.714, "low": 0.69, "high": 0.741, "confidence": 0.9688}
LOOP = {
    "iterations": 100_000_000,
    "size": 1024,
    "threads": 1,
    "rounds": 6,
    "seed": 1,
    "preset": "quick",
    "cpus": 2,
}


def arm(allocator: str, library: str | None, **facts: Any) -> dict[str, Any]:
    known = {
        "allocator": allocator,
        "library": library,
        "valid": True,
        "reason": None,
        "message": "",
        "bound": ["/l"],
    }
    figures = {
        "seconds": [13.4],
        "cpu_seconds": [13.3],
        "median": 13.392,
        "min": 13.1,
        "max": 13.9,
        "iqr": 0.2,
    }
    more = {"cpu_median": 13.3, "ns_per_pair": 133.9, "ratio": None, "cpu_ratio": None, "max_rss": 1 << 20}
    return {**known, **figures, **more, **facts}


def host(name: str = "db1", failure: str = "", **result: Any) -> dict[str, Any]:
    arms = [arm("system", None), arm("tcmalloc", "/lib/libtcmalloc.so.4", ratio=RATIO, cpu_ratio=RATIO)]
    told = {
        "message": "the loop",
        "loop": LOOP,
        "arms": arms,
        "compiler": "cc 12",
        "order": [],
        "remark": None,
    }
    return {"host": name, "result": {} if failure else {**told, **result}, "failure": failure, "unusable": []}


def test_the_table_has_a_line_for_each_allocator_with_its_ratio() -> None:
    table = lines(view("r", [host()], "now"))
    assert table[1].split()[:5] == ["db1", "system", "13.392", "13.100", "to"]
    assert "0.71 (0.69 to 0.74)" in table[2] and table[2].endswith("/lib/libtcmalloc.so.4")
    assert table[-1] == "1 host: 1 measured."


def test_the_table_and_the_page_say_how_little_it_says() -> None:
    shown = view("r", [host()], "now")
    assert SCOPE in lines(shown) and shown["scope"].startswith("A malloc loop says little about a database")


def test_a_host_that_was_not_measured_comes_first_with_its_reason() -> None:
    shown = view("r", [host(), host("db2", "there is no C compiler")], "now")
    assert [one["host"] for one in shown["hosts"]] == ["db2", "db1"]
    assert shown["headline"] == "2 hosts: 1 not measured, 1 measured."
    assert "db2: there is no C compiler" in lines(shown)


def test_a_host_that_gave_nothing_is_not_measured() -> None:
    (shown,) = view("r", [{"host": "db1", "result": None, "unusable": None, "failure": None}], "now")["hosts"]
    assert (shown["status"], shown["message"]) == ("failed", "it gave no answer")


def test_what_check_mode_says_is_neither_measured_nor_failed() -> None:
    planned = host()
    del planned["result"]["arms"]
    shown = view("r", [planned], "now")
    assert shown["headline"] == "1 host: 1 would be measured." and lines(shown)[0] == "db1: the loop"


def test_an_arm_that_does_not_count_is_a_line_with_its_reason() -> None:
    bad = {"allocator": "jemalloc", "library": None, "reason": "not_found", "message": "Install it."}
    shown = view("r", [{**host(), "unusable": [bad]}], "now")
    table = lines(shown)
    assert table[3].split() == ["db1", "jemalloc", "not_found", "-", "-", "-", "-"]
    assert "db1: jemalloc: Install it." in table and shown["hosts"][0]["arms"][2]["valid"] is False


def test_only_the_known_keys_reach_the_report() -> None:
    shown = view("r", [host(invocation={"password": "x"})], "now")
    assert "password" not in str(shown)


def test_control_characters_of_a_host_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "\n".join(lines(view("r", [host("db1", "\x1b[2J")], "now")))


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), ({**RATIO, "low": None}, "0.71"), (RATIO, "0.71 (0.69 to 0.74)")],
)
def test_a_ratio_without_an_interval_is_the_figure_alone(ratio: Any, text: str) -> None:
    assert figure(ratio) == text
