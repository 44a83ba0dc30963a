# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))

from ansible_collections.fleet.mysqltune.plugins.action.malloc_report import PAGE, record
from ansible_collections.fleet.mysqltune.plugins.action.tuning_report import render
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_view import view
from test_malloc_view import host
from test_tuning_report import HOSTILE, Page


def page(hosts: list[dict[str, Any]]) -> str:
    return render(PAGE, view("r1", hosts, "now"))


def test_the_page_shows_the_ratio_and_how_little_it_says() -> None:
    text = page([host()])
    assert "0.71 ×" in text and "A malloc loop says little about a database" in text and "13.392" in text


def test_the_page_loads_nothing_needs_no_script_and_has_the_style_of_the_report() -> None:
    text = page([host()])
    assert Page(text).loaded == [] and not {"script", "link", "img", "iframe"} & set(Page(text).tags)
    assert "prefers-color-scheme: dark" in text and ".timed" in text.split("</style>")[0]


def test_hostile_names_and_messages_stay_text() -> None:
    bad = {"allocator": HOSTILE, "library": HOSTILE, "reason": HOSTILE, "message": HOSTILE}
    text = page([{**host(HOSTILE, compiler=HOSTILE), "unusable": [bad]}, host("db2", HOSTILE)])
    assert "script" not in Page(text).tags and "&lt;script&gt;" in text


def test_hosts_without_figures_and_no_hosts_are_pages_too() -> None:
    assert "no compiler" in page([host("db1", "no compiler")]) and "No host took part" in page([])


def test_a_lost_host_is_not_measured_and_says_why() -> None:
    lost = {
        "malloc_benchmark_seen": {"unreachable": True, "msg": "no route"},
        "malloc_benchmark_result": {"skipped": True},
    }
    assert record("db1", lost)["failure"] == "no route"
    assert record("db1", {})["failure"] == "it was not reached"


def test_a_failure_beats_the_result_of_the_module() -> None:
    failed = {"malloc_benchmark_failure": "busy", "malloc_benchmark_result": {"loop": {}, "failed": True}}
    found = record("db1", failed)
    assert (found["failure"], found["result"]) == ("busy", {})


def test_only_arms_without_a_library_are_added_to_those_of_the_module() -> None:
    arms = [{"allocator": "tcmalloc", "reason": None}, {"allocator": "jemalloc", "reason": "not_found"}]
    found = record(
        "db1", {"malloc_benchmark_result": {"loop": {}, "arms": []}, "malloc_benchmark_arms": arms}
    )
    assert [arm["allocator"] for arm in found["unusable"]] == ["jemalloc"] and not found["failure"]
