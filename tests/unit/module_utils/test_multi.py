from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import observe
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.instance import Asked
from ansible_collections.fleet.mysqltune.plugins.module_utils.launcher import Unit
from ansible_collections.fleet.mysqltune.plugins.module_utils.multi import groups, missing, starts_groups

OPTIONS = """
[mysqld]
datadir = /srv/plain
[mysqld1]
datadir = /srv/one/
[mysqld_multi]
datadir = /srv/none
[mysqld22]
port = 3307
datadir = /srv/before
datadir = /srv/two
[mysqld3]
port = 3308
"""


@pytest.fixture
def cnf(tmp_path):
    path = tmp_path / "my.cnf"
    path.write_text(OPTIONS)
    return str(path)


def test_only_numbered_groups_with_a_directory_are_servers_of_mysqld_multi(cnf):
    assert groups([cnf, "/nowhere"]) == {"mysqld1": "/srv/one", "mysqld22": "/srv/two"}


def test_a_group_is_missing_if_no_server_has_its_directory(cnf):
    assert missing([cnf], ["/srv/one"]) == {"mysqld22": "/srv/two"}
    assert missing([cnf], ["/srv/two/", "/srv/one"]) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$bindir/mysqld_multi start\n", True),
        ("ExecStart=/usr/bin/mariadbd-multi start 1-2\n", True),
        ("# mysqld_multi is not used here\n", False),
        ("ExecStart=/usr/sbin/mariadbd\n", False),
    ],
)
def test_a_script_or_unit_that_calls_it_starts_groups(tmp_path, text, expected):
    (tmp_path / "script").write_text(text)
    assert starts_groups(None, str(tmp_path / "script")) is expected


def test_a_group_that_does_not_run_is_a_stopped_instance_of_the_same_launcher(tmp_path, cnf):
    script = tmp_path / "init"
    script.write_text("mysqld_multi $1\n")
    launcher = {"kind": "mysqld_safe", "unit": "mysql.service", "init_script": str(script)}
    running = {"pid": 7, "launcher": launcher, "option_files": [cnf], "datadir": "/srv/one"}
    loaded = "Id=mysql.service\nLoadState=loaded\n"
    asked = Asked(run=lambda *_args, **_more: Completed(0, loaded, ""))
    [found] = observe._stopped_groups([running], {"mysql.service": Unit("mysql.service")}, asked)
    assert (found["name"], found["pid"], found["datadir"]) == ("mysqld22 of mysql.service", None, "/srv/two")
    assert (found["launcher"]["kind"], found["launcher"]["unit"]) == ("stopped", "mysql.service")


def test_servers_started_by_hand_with_mysqld_multi_all_get_its_init_script(tmp_path):
    script = tmp_path / "mysql"
    script.write_text("mysqld_multi $1\n")
    unit = Unit("mysql.service", source=f"/etc/init.d/../..{script}")
    found = [{"launcher": {"kind": "mysqld_safe", "unit": None, "init_script": None}} for _server in range(2)]
    observe._give_home(found, {unit.name: unit})
    assert [one["launcher"]["init_script"] for one in found] == [unit.source] * 2
