# SPDX-License-Identifier: GPL-3.0-or-later
"""From an observation and its plan to reasons, and from reasons to table and metrics."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import drift_report
from ansible_collections.fleet.mysqltune.plugins.module_utils.drift import drift, unknown
from ansible_collections.fleet.mysqltune.plugins.module_utils.plan import plan
from prometheus_client.parser import text_string_to_metric_families
from test_plan import JEMALLOC, TCMALLOC, desired, instance, library, observed, tuned

DROP_IN = "/etc/systemd/system/mariadb.service.d/zz-fleet-mysqltune.conf"
SAFE = {
    "kind": "mysqld_safe",
    "unit": None,
    "script": "/usr/bin/mysqld_safe",
    "init_script": "/etc/init.d/mysql",
}


def file(
    path: str, state: str, block: bool | None = None, kind: str | None = "mysqld_safe"
) -> dict[str, Any]:
    kind = None if block is None else kind
    named = {"path": path, "run_id": "run-1", "kind": kind}
    return {**named, "state": state, "block": block, "mode": "0644", "content": None}


def found(*instances: Any, **changes: Any) -> list[dict[str, Any]]:
    seen = observed(*instances, libraries=[library()], **changes)
    return drift(seen, plan(seen, desired()))


def codes(records: list[dict[str, Any]]) -> list[str]:
    return [reason["code"] for record in records for reason in record["reasons"]]


def test_a_server_that_is_proved_to_be_as_asked_has_no_reasons() -> None:
    (record,) = found(tuned())
    assert (record["status"], record["reasons"], record["level"]) == ("effective", [], "effective")


def test_a_virgin_server_is_not_tuned() -> None:
    (record,) = found(instance())
    assert record["status"] == "drift"
    assert [(reason["name"], reason["message"]) for reason in record["reasons"]] == [
        ("not tuned", f"preload {TCMALLOC}")
    ]


def test_a_stopped_server_is_told_and_no_drift() -> None:
    (record,) = found(instance(launcher={"kind": "stopped"}))
    assert (record["status"], record["reasons"]) == ("stopped", [])


def test_a_file_that_is_gone_is_the_cause() -> None:
    (record,) = found(
        instance(), managed_files=[file(DROP_IN, "gone"), file("/etc/other.service.d/x", "gone")]
    )
    assert codes([record]) == ["unit_changed"]
    assert record["reasons"][0]["message"] == f"{DROP_IN} is gone since run run-1"


@pytest.mark.parametrize(("block", "code"), [(False, "reverted_script"), (True, "script_changed")])
def test_a_script_without_our_block_was_reverted(block: bool, code: str) -> None:
    server = instance(name="/var/lib/mysql", launcher=SAFE)
    (record,) = found(server, managed_files=[file("/usr/bin/mysqld_safe", "changed", block)])
    assert codes([record]) == [code]


@pytest.mark.parametrize(("block", "code"), [(False, "reverted_option_file"), (True, "option_file_changed")])
def test_an_option_file_without_our_block_was_reverted(block: bool, code: str) -> None:
    server = instance(name="/var/lib/mysql", launcher=SAFE)
    (record,) = found(server, managed_files=[file("/etc/my.cnf", "changed", block, "option_file")])
    assert codes([record]) == [code]


SCRIPT = "/usr/bin/mysqld_safe"


@pytest.mark.parametrize(
    ("launcher", "block", "kind", "expected"),
    [
        ({}, True, "mysqld_safe", ["launcher_mismatch"]),
        ({**SAFE, "script": "/opt/mysqld_safe"}, True, "mysqld_safe", ["launcher_mismatch"]),
        (SAFE, True, "mysqld_safe", []),
        ({}, False, "mysqld_safe", []),
        ({}, True, "option_file", []),
        ({"kind": "stopped"}, True, "mysqld_safe", []),
    ],
)
def test_a_patched_script_that_nothing_runs_concerns_the_host(
    launcher: dict[str, Any], block: bool, kind: str, expected: list[str]
) -> None:
    records = found(tuned(launcher=launcher), managed_files=[file(SCRIPT, "as_left", block, kind)])
    of_host = [record for record in records if record["instance"] is None]
    assert codes(of_host) == expected
    assert not of_host or SCRIPT in of_host[0]["reasons"][0]["message"]


def test_a_changed_file_of_a_server_that_is_as_asked_is_no_drift() -> None:
    (record,) = found(tuned(), managed_files=[file(DROP_IN, "changed")])
    assert record["status"] == "effective"


def test_what_the_process_proves_is_the_reason() -> None:
    deleted = tuned()
    deleted["allocator"]["deleted"] = [TCMALLOC]
    stale = instance(allocator={"configured": [TCMALLOC], "managed": True})
    assert codes(found(deleted)) == ["deleted"]
    assert codes(found(stale)) == ["stale_process"]


def test_a_foreign_file_that_beats_ours_is_named() -> None:
    server = tuned()
    server["allocator"].update(configured=[], overridden_by=["/etc/colleague.env"])
    (record,) = found(server)
    assert record["reasons"][0]["code"] == "overridden"
    assert "/etc/colleague.env" in record["reasons"][0]["message"]


def test_a_refusal_is_a_reason_of_each_server_that_was_not_planned() -> None:
    server = instance(allocator={"configured": [JEMALLOC], "managed": False})
    (record,) = found(server)
    assert (record["status"], codes([record])) == ("drift", ["second_allocator"])


def test_runs_that_came_to_a_bad_end_concern_the_host() -> None:
    left = {"run_id": "run-2", "state": "activating", "started": 1.0}
    last = {
        "run_id": "run-1",
        "state": "restore_failed",
        "message": "stuck",
        "reason": "crash",
        "finished": 1.0,
    }
    records = found(tuned(), unfinished=[left], last_run=last)
    assert [record["instance"] for record in records] == ["mariadb.service", None]
    assert codes(records) == ["interrupted", "restore_failed"]


def test_a_server_that_was_put_back_says_by_which_run() -> None:
    last = {
        "run_id": "run-1",
        "state": "restored",
        "message": "it crashed",
        "reason": "crash",
        "finished": 1.0,
    }
    assert codes(found(instance(), last_run=last)) == ["not_tuned", "restored"]
    assert codes(found(tuned(), last_run=last)) == []


def test_the_table_has_a_line_per_server_and_the_sum() -> None:
    hosts = {"a": found(tuned()), "b": found(instance()), "c": unknown("No route to host")}
    lines = drift_report.lines(hosts)
    assert [line.split()[0] for line in lines[:4]] == ["host", "a", "b", "c"]
    assert "c: could not be observed: No route to host" in lines
    assert lines[-1] == "3 hosts: 1 as asked, 1 not as asked, 1 unknown."


def test_the_metrics_are_valid_whatever_is_in_a_name() -> None:
    nasty = 'db"1\\\n'
    hosts = {
        nasty: found(tuned()),
        "b": found(instance()),
        "c": unknown("gone"),
        "d": found(instance(launcher={"kind": "stopped"})),
    }
    text = drift_report.prometheus(hosts, 1.5)
    samples = {
        (sample.name, sample.labels.get("host"), sample.labels.get("reason")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["fleet_mysqltune_instance_effective", nasty, None] == 1
    assert samples["fleet_mysqltune_instance_effective", "b", None] == 0
    assert samples["fleet_mysqltune_drift", "b", "not_tuned"] == 1
    assert samples["fleet_mysqltune_host_unknown", "c", None] == 1
    assert samples["fleet_mysqltune_instance_stopped", "d", None] == 1
    assert samples["fleet_mysqltune_verify_timestamp_seconds", None, None] == 1.5
