from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.launcher import (
    Ancestor,
    Unit,
    ancestry,
    determine,
    parse_units,
    read_cgroup,
    script_paths,
    unit_of,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"

SERVER = Ancestor(100, ["/usr/sbin/mariadbd", "--user=mysql"], "/usr/sbin/mariadbd")
SAFE = Ancestor(90, ["/bin/sh", "/opt/nowhere/mysqld_safe", "--datadir=/data"], "/usr/bin/dash")
INIT = Ancestor(80, ["/bin/sh", "/etc/init.d/mysql", "start"], "/usr/bin/dash")
WRAPPER = Ancestor(70, ["/bin/bash", "/opt/run-db"], "/usr/bin/bash")
SSHD = Ancestor(60, ["sshd: root@pts/0"], "/usr/sbin/sshd")
LOGIN = Ancestor(65, ["-bash"], "/usr/bin/bash")

MARIADB = Unit("mariadb.service", main_pid=100)
GENERATED = Unit("mysql.service", source="/etc/init.d/mysql")
SSH = Unit("ssh.service", main_pid=60)


@pytest.mark.parametrize(
    ("chain", "unit", "expected"),
    [
        ([SERVER], MARIADB, ("systemd", "mariadb.service", None)),
        ([SERVER, WRAPPER], Unit("db.service", main_pid=70), ("systemd", "db.service", None)),
        ([SERVER], Unit("db.service"), ("systemd", "db.service", None)),
        ([SERVER, SAFE], Unit("mysql.service", main_pid=90), ("mysqld_safe", "mysql.service", None)),
        ([SERVER, SAFE], GENERATED, ("mysqld_safe", "mysql.service", "/etc/init.d/mysql")),
        ([SERVER, SAFE, INIT], GENERATED, ("mysqld_safe", "mysql.service", "/etc/init.d/mysql")),
        ([SERVER, SAFE, INIT], None, ("mysqld_safe", None, "/etc/init.d/mysql")),
        ([SERVER, SAFE, LOGIN, SSHD], SSH, ("mysqld_safe", None, None)),
        ([SERVER, SAFE], SSH, ("mysqld_safe", None, None)),
        ([SERVER], GENERATED, ("sysv", "mysql.service", "/etc/init.d/mysql")),
        ([SERVER, INIT], None, ("sysv", None, "/etc/init.d/mysql")),
        ([SERVER, LOGIN, SSHD], SSH, ("bare", None, None)),
        ([SERVER], None, ("bare", None, None)),
        ([SERVER], MARIADB._replace(load_state="masked"), ("masked", "mariadb.service", None)),
        ([SERVER], Unit("docker.service", load_state="not-found"), ("bare", None, None)),
    ],
)
def test_the_launcher_is_what_really_started_the_server(chain, unit, expected):
    found = determine(chain, unit, "/nowhere")
    assert (found["kind"], found["unit"], found["init_script"]) == expected
    assert set(found) == {"kind", "unit", "script", "script_link", "init_script", "fmri"}


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/mariadb.service\n", "mariadb.service"),
        ("0::/system.slice/system-mariadb.slice/mariadb@a.service\n", "mariadb@a.service"),
        ("0::/system.slice/mysqld.service/worker\n", "mysqld.service"),
        ("1:name=systemd:/system.slice/mysql.service\n0::/\n", "mysql.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/db.service\n", None),
        ("0::/system.slice/docker-0a1b.scope\n", None),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_the_unit_is_read_from_either_version_of_control_groups(text, unit):
    assert unit_of(text) == unit


def test_the_prefix_of_a_container_is_no_hindrance():
    assert unit_of((FIXTURES / "cgroup/hybrid-podman-debian-12.txt").read_text()) == "mariadb.service"


def test_aliases_come_back_under_the_units_own_name():
    units = parse_units((FIXTURES / "systemctl/show-252-debian-12.txt").read_text())
    assert list(units) == ["mariadb.service"]
    assert units["mariadb.service"].main_pid == 1061
    assert units["mariadb.service"].program == "/usr/sbin/mariadbd"
    assert units["mariadb.service"].init_script is None


def test_a_generated_unit_tells_its_init_script():
    unit = parse_units((FIXTURES / "systemctl/show-252-debian-12-sysv.txt").read_text())["mysql.service"]
    assert (unit.main_pid, unit.init_script, unit.program) == (0, "/etc/init.d/mysql", None)


@pytest.fixture
def proc(tmp_path):
    """A /proc with a shell (90) that has its mysqld_safe open, and a server (100) below it."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    (scripts / "mariadbd-safe").touch()
    (scripts / "mysqld_safe").symlink_to("mariadbd-safe")
    for pid, parent, argv in ((90, 1, "sh\0./mysqld_safe\0"), (100, 90, "mariadbd\0")):
        directory = tmp_path / "proc" / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "cmdline").write_bytes(argv.encode())
        (directory / "stat").write_text(f"{pid} (a b) c) S {parent} " + "0 " * 40)
        (directory / "exe").symlink_to("/usr/bin/dash")
    for number, target in ((2, "/dev/null"), (10, f"{scripts}/mariadbd-safe (deleted)"), (9, "/tmp/other")):
        (tmp_path / f"proc/90/fd/{number}").symlink_to(target)
    return tmp_path / "proc"


def test_a_chain_goes_up_to_the_init(proc):
    assert [(known.pid, known.safe) for known in ancestry(100, str(proc))] == [
        (100, None),
        (90, "./mysqld_safe"),
    ]


def test_a_relative_script_is_found_by_what_the_shell_has_open(proc):
    found = script_paths(ancestry(100, str(proc))[1], str(proc))
    assert found["script"] == str(proc.parent / "bin/mariadbd-safe")


def test_a_link_is_told_apart_from_the_script_it_leads_to(proc):
    link = str(proc.parent / "bin/mysqld_safe")
    found = script_paths(Ancestor(90, ["/bin/sh", link], "/usr/bin/dash"), str(proc))
    assert found == {"script": str(proc.parent / "bin/mariadbd-safe"), "script_link": link}


def test_our_own_ancestry_and_control_group_can_be_read():
    assert ancestry(os.getpid())[0].pid == os.getpid()
    assert read_cgroup(os.getpid())
    assert read_cgroup(2**22 + 1) == ""
