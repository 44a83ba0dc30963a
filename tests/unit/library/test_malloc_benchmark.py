# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as it is called: what it refuses, what it says, and that it leaves nothing behind."""

from __future__ import annotations

import glob
import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils.lease import LeaseHeld
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_loop import Loop
from ansible_collections.fleet.mysqltune.plugins.modules import malloc_benchmark as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from unit_host import libc_path


@pytest.fixture
def run(capsys):
    def call(**params):
        arguments = {"iterations": 1000, "size": 64, "rounds": 2, **params}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return call


def left():
    return glob.glob("/tmp/fleet-mysqltune-malloc-*")


def server(**facts):
    return {
        "name": "mariadb.service",
        "pid": 1,
        "socket": "/nowhere.sock",
        "sql": {"client": "/bin/false"},
        **facts,
    }


def test_two_runs_measure_twice_and_change_nothing(run):
    before = left()
    for _ in range(2):
        result = run(library=[libc_path(), "/usr/lib/libfleet_none.so.4"])
        assert result["changed"] is False and result["compiler"]
        arms = result["arms"]
        assert [(arm["valid"], arm["reason"]) for arm in arms[::2]] == [(True, None), (False, "not_found")]
        assert len(arms[0]["seconds"]) == 2 and result["loop"]["iterations"] == 1000
    assert left() == before


def test_check_mode_says_what_would_run_and_compiles_nothing(run, monkeypatch):
    monkeypatch.setattr(module, "built", None)
    result = run(library=["/usr/lib/libx.so.4"], _ansible_check_mode=True)
    assert result["changed"] is False and "arms" not in result
    assert result["message"] == (
        "would time 1,000 x malloc(64) and free in 1 thread, 2 rounds: the system's, /usr/lib/libx.so.4"
    )


def test_the_preset_fills_in_what_is_not_given():
    params = {"preset": "classic_2007", "iterations": 0, "size": 0, "threads": 2}
    study = module.study_of({**params, "rounds": 6, "seed": 1, "timeout": 600})
    assert study.loop == Loop(100_000_000, 1024, 2)


def test_a_number_that_cannot_be_fails_in_check_mode_too(run):
    failed = run(size=-1, _ansible_check_mode=True)
    assert failed["failed"] and "size is -1. Use a number from 1 to 1048576" in failed["msg"]


def test_a_server_that_cannot_be_asked_counts_as_busy(run):
    failed = run(servers=[server()])
    assert failed["failed"] and "mariadb.service cannot be asked whether it has traffic" in failed["msg"]
    assert "malloc_benchmark_beside_traffic" in failed["msg"]


def test_a_server_that_does_not_run_is_in_nobodys_way(run):
    assert run(servers=[server(pid=None)])["changed"] is False


def test_a_busy_server_is_refused_with_its_figure(run, tmp_path):
    client = tmp_path / "client"
    count = tmp_path / "count"
    count.write_text("0")
    client.write_text(
        "#!/bin/sh\nread -r statement\n"
        f"n=$(($(cat {count}) + 1000)); echo $n >{count}\n"
        'printf "Variable_name\\tValue\\nQuestions\\t%s\\nfleet_mysqltune_mark\\n0\\n" "$n"\n'
    )
    client.chmod(0o755)
    busy = server(sql={"client": str(client)})
    failed = run(servers=[busy], max_foreign_queries=10)
    assert failed["failed"] and "statements/s to mariadb.service (limit 10)" in failed["msg"]
    assert run(servers=[busy], max_foreign_queries=1000)["changed"] is False


def test_a_host_that_another_run_works_on_is_refused(run, monkeypatch):
    def held(_run_id):
        raise LeaseHeld("run r1 is at work on this host")

    monkeypatch.setattr(module, "check", held)
    assert "r1" in run(_ansible_check_mode=True)["msg"]
