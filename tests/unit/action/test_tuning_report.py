# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from ansible_collections.fleet.mysqltune.plugins.action.tuning_report import (
    TEMPLATES,
    curve,
    number,
    plain,
    render,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.report_view import view

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"


class Page(HTMLParser):
    """The tags, and whatever would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [
            value or "" for name, value in attrs if name in ("src", "srcset", "data", "onload", "onclick")
        ]


def page(name: str, message: str = "") -> str:
    asked = {"threads": 4, "duration": 60}
    intervals = [{"t": second, "tps": 100.0 + second} for second in range(1, 20)]
    measured = {
        "instance": name,
        "tps": 100.0,
        "valid": True,
        "asked": asked,
        "intervals": intervals,
        "test": name,
    }
    measured.update(remarks=[message], command=message, artifact="before/x/sysbench.txt", sysbench="1.0.20")
    instance = {"name": name, "level": "effective", "files": [message], "library": message, "downtime": 1.0}
    runs = [dict(measured, phase="before"), dict(measured, phase="after", message=message)]
    host = {"host": name, "status": "tuned", "message": message, "instances": [instance], "benchmarks": runs}
    return render(TEMPLATES / "report.html.j2", view("r1", [host], "now"))


def test_hostile_names_and_messages_stay_text() -> None:
    text = page(HOSTILE, HOSTILE)
    assert "script" not in Page(text).tags
    assert "&lt;script&gt;" in text and "49" not in text.split("<body>")[1].replace("149", "")


def test_the_page_loads_nothing_and_needs_no_script() -> None:
    found = Page(page("db1"))
    assert found.loaded == [] and not {"script", "link", "img", "iframe"} & set(found.tags)


def test_the_page_is_made_for_dark_mode_and_phones() -> None:
    text = page("db1")
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def test_a_page_without_hosts_is_a_page() -> None:
    assert "No host took part" in render(TEMPLATES / "report.html.j2", view("r1", [], "now"))


def test_many_unchanged_hosts_are_one_list() -> None:
    hosts = [
        {"host": f"db{number}", "status": "unchanged", "instances": [], "message": ""} for number in range(40)
    ]
    text = render(TEMPLATES / "report.html.j2", view("r1", hosts, "now"))
    assert "40 hosts were found as they should be" in text and text.count("<article") == 0


def test_records_become_plain_values() -> None:
    assert plain([{"a": Path("/x"), "b": [1, {"c": None}]}]) == [{"a": "/x", "b": [1, {"c": None}]}]


def test_a_missing_figure_is_a_dash() -> None:
    assert number(None) == "\u2013" and number(1234.5, 1) == "1\u202f234.5"


def test_a_curve_needs_two_points() -> None:
    assert curve([[1.0, 5.0]], 10.0) == "" and curve([[1.0, 0.0], [2.0, 10.0]], 10.0) == "0.0,59.0 600.0,1.0"
