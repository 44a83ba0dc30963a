from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import observe as module
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.launcher import Unit
from ansible_collections.fleet.mysqltune.plugins.module_utils.observe import (
    ObserveError,
    idle,
    observe,
    show,
    unit_files,
)

SHOWN = Path(__file__).parents[2] / "fixtures/systemctl/show-252-debian-12.txt"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def silent(*_args, **_more):
    return Completed(0, "", "")


@pytest.fixture
def tree(tmp_path):
    """An empty root file system and an empty /proc."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "root/etc").mkdir(parents=True)
    return tmp_path


def look(tree, **more):
    return observe(proc=str(tree / "proc"), root=str(tree / "root"), state_root=str(tree / "state"), **more)


@as_root
def test_a_host_without_a_server_is_no_error(tree):
    seen = look(tree, run=silent)
    assert set(seen) == {"host", "instances", "libraries", "managed_files", "lease", "unfinished", "last_run"}
    assert (seen["instances"], seen["libraries"], seen["lease"], seen["unfinished"]) == ([], [], None, [])
    assert not (tree / "state").exists()


@as_root
def test_a_unit_without_a_process_is_a_stopped_instance(tree):
    units = tree / "root/usr/lib/systemd/system"
    units.mkdir(parents=True)
    (units / "mariadb.service").touch()
    (tree / "root/run/systemd/system").mkdir(parents=True)
    text = "Id=mariadb.service\nMainPID=0\nLoadState=loaded\nActiveState=inactive\n"
    [instance] = look(tree, run=lambda *_args, **_more: Completed(0, text, ""))["instances"]
    assert (instance["name"], instance["launcher"]["kind"]) == ("mariadb.service", "stopped")


@as_root
def test_a_missing_credentials_file_is_named_before_anything_is_asked(tree):
    with pytest.raises(ObserveError, match=r"/nope\.cnf does not exist on this host"):
        look(tree, defaults_file="/nope.cnf", run=silent)


def test_somebody_else_than_root_is_told_to_become(tree, monkeypatch):
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    with pytest.raises(ObserveError, match="become: true"):
        look(tree, run=silent)


def test_unit_files_of_servers_are_found_and_templates_and_tools_are_not(tmp_path):
    for path in (
        "usr/lib/systemd/system/mariadb.service",
        "usr/lib/systemd/system/mariadb@.service",
        "usr/lib/systemd/system/mysqld_exporter.service",
        "etc/systemd/system/multi-user.target.wants/mariadb@a.service",
        "run/systemd/generator.late/mysql.service",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert unit_files(str(tmp_path)) == ["mariadb.service", "mariadb@a.service", "mysql.service"]


def test_all_units_are_asked_for_in_one_command():
    calls = []

    def run(argv, **_more):
        calls.append(argv)
        return Completed(0, SHOWN.read_text(), "")

    assert list(show(["mariadb.service", "mysql.service", "mysqld.service"], run)) == ["mariadb.service"]
    assert len(calls) == 1
    assert show([], run) == {}
    assert len(calls) == 1


def test_a_manager_that_does_not_answer_is_said():
    with pytest.raises(ObserveError, match="Failed to connect to bus"):
        show(["mysql.service"], lambda *_args, **_more: Completed(1, "", "Failed to connect to bus"))


def test_only_units_that_would_start_a_server_and_have_none_are_idle():
    units = {
        unit.name: unit
        for unit in (
            Unit("mariadb.service", active_state="failed"),
            Unit("mysql.service", active_state="active"),
            Unit("mysqld.service", load_state="masked", active_state="inactive"),
            Unit("percona.service", main_pid=7, active_state="active"),
            Unit("mysql@a.service", active_state="active", main_pid=8),
            Unit("ssh.service", active_state="inactive"),
        )
    }
    assert [unit.name for unit in idle(units, {"mysql@a.service"})] == ["mariadb.service", "mysql.service"]


def test_a_unit_whose_script_runs_a_server_is_not_idle():
    unit = Unit("mysql.service", active_state="active", source="/etc/init.d/mysql")
    assert idle({unit.name: unit}, {"/etc/init.d/mysql", None}) == []
    assert idle({unit.name: unit}, {None}) == [unit]


@pytest.mark.parametrize(
    ("servers", "script"),
    [(1, "/etc/init.d/mysql"), (2, None)],
)
def test_a_server_started_by_hand_gets_the_init_script_only_without_doubt(servers, script):
    found = [
        {"launcher": {"kind": "mysqld_safe", "unit": None, "init_script": None}} for _server in range(servers)
    ]
    module._give_home(found, {"mysql.service": Unit("mysql.service", source="/etc/init.d/mysql")})
    assert {one["launcher"]["init_script"] for one in found} == {script}


def test_instances_with_one_name_are_told_apart():
    same = [{"name": "mysql.service", "socket": "/a"}, {"name": "mysql.service", "socket": None, "pid": 7}]
    names = [instance["name"] for instance in module._with_unique_names([*same, {"name": "/data"}])]
    assert names == ["/data", "mysql.service (/a)", "mysql.service (7)"]
