"""One server: real processes with the name of a server, and a client that answers as a real one did."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import malloc_lib
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.instance import (
    Asked,
    Wanted,
    allocator,
    ask,
    configured,
    identity,
    running,
    stopped,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.launcher import Unit, nothing
from ansible_collections.fleet.mysqltune.plugins.module_utils.sql import Sql
from programs import programs

__all__ = ["programs"]

CLIENT = Path(__file__).parents[2] / "fixtures/client"
SAFE = Path(__file__).parents[2] / "fixtures/mysqld_safe/family-c-mariadb.sh"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read another process's memory")


def answering(name="mariadb-10.11-debian-12-primary"):
    out, err = ((CLIENT / f"{name}.{kind}.txt").read_text() for kind in ("out", "err"))
    return lambda *_args, **_more: Completed(1, out, err)


def refusing(argv, **_more):
    if "--version" in argv:
        return Completed(0, "mysqld  Ver 8.0.40 for Linux on x86_64 (Percona Server (GPL), Release 31)\n", "")
    return Completed(
        1, "", "ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: NO)\n"
    )


def loaded(*_args, **_more):
    return Completed(0, "Id=mysql.service\nLoadState=loaded\nMainPID=0\n", "")


@pytest.fixture
def server(programs):
    """A program with the name of a server, and a client beside it."""
    path = programs.program("mariadbd")
    client = programs.directory / "mariadb"
    client.touch(mode=0o755)
    return path


@as_root
def test_a_server_that_answers_is_described_by_what_it_says(programs, server):
    seen = running(programs.start(server), None, Asked(run=answering()))
    assert (seen["flavour"], seen["version"], seen["port"]) == ("mariadb", "10.11.19", 3306)
    assert (seen["datadir"], seen["socket"]) == ("/var/lib/mysql", "/run/mysqld/mysqld.sock")
    assert seen["name"] == "/var/lib/mysql"
    assert seen["sql"] == {"client": str(programs.directory / "mariadb"), "reachable": True, "error": None}
    assert seen["topology"]["role"] == "primary"
    assert seen["launcher"]["kind"] == "bare"
    assert (seen["allocator"]["name"], seen["allocator"]["level"]) == ("system", "effective")
    assert seen["user"] == "root"


@as_root
def test_a_server_that_refuses_us_is_still_described(programs, server):
    seen = running(programs.start(server), None, Asked(run=refusing))
    assert (seen["flavour"], seen["version"]) == ("percona", "8.0.40")
    assert seen["sql"]["reachable"] is False
    assert "1045" in seen["sql"]["error"]
    assert (seen["topology"]["role"], seen["topology"]["error"]) == ("unknown", seen["sql"]["error"])
    assert seen["datadir"] == os.getcwd()


@as_root
def test_without_topology_the_role_is_not_asked(programs, server):
    seen = running(programs.start(server), None, Asked(topology=False, run=answering()))
    assert (seen["version"], seen["topology"]["role"]) == ("10.11.19", "unknown")


@as_root
def test_a_server_below_mysqld_safe_has_the_scripts_real_path_and_what_it_preloads(programs, server):
    library = programs.library("libjemalloc.so.2")
    real, link = programs.directory / "mariadbd-safe", programs.directory / "mysqld_safe"
    real.write_text(f"#!/bin/sh\n{server} &\nwait\n")
    real.chmod(0o755)
    link.symlink_to(real)
    environment = {**os.environ, "LD_PRELOAD": library}
    with subprocess.Popen([str(link)], stdout=subprocess.PIPE, env=environment) as shell:
        assert shell.stdout.read(1) == b"!"
        pid = int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()[0])
        try:
            seen = running(pid, None, Asked(run=answering()))
        finally:
            os.kill(pid, 9)
    assert seen["launcher"]["kind"] == "mysqld_safe"
    assert (seen["launcher"]["script"], seen["launcher"]["script_link"]) == (str(real), str(link))
    assert (seen["allocator"]["name"], seen["allocator"]["environ"]) == ("jemalloc", library)


def test_a_missing_client_is_said_with_the_places():
    answers = ask(Sql(None), ["/opt/bin/mysql", "PATH"], True)
    assert "tried /opt/bin/mysql, PATH" in answers.error
    assert answers.topology["role"] == "unknown"


def test_a_stopped_unit_is_an_instance_without_a_process():
    unit = Unit("mysql.service", source="/etc/init.d/mysql", active_state="inactive")
    seen = stopped(unit, Asked(run=loaded))
    assert (seen["name"], seen["pid"], seen["launcher"]["kind"]) == ("mysql.service", None, "stopped")
    assert seen["launcher"]["init_script"] == "/etc/init.d/mysql"
    assert (seen["allocator"]["level"], seen["allocator"]["reason"]) == ("intended", "stopped")


def test_stopped_and_running_instances_have_the_same_keys(programs, server):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    alive = running(programs.start(server), None, Asked(run=answering()))
    dead = stopped(Unit("mysql.service"), Asked(run=loaded))
    assert alive.keys() == dead.keys()
    for part in ("launcher", "allocator", "memory", "sql", "topology"):
        assert alive[part].keys() == dead[part].keys()


def test_what_a_script_preloads_is_what_its_next_start_would(tmp_path):
    script = tmp_path / "mysqld_safe"
    script.write_text(SAFE.read_text())
    launcher = dict(nothing("mysqld_safe"), script=str(script))
    seen = configured(launcher, loaded)
    assert (seen.shown["configured"], seen.shown["managed"], seen.own) == ([], False, None)
    assert (seen.shown["configured_variables"], seen.shown["own_variables"]) == ({}, {})


def test_a_malloc_lib_in_the_option_files_is_what_a_script_preloads(tmp_path):
    script, options = tmp_path / "mysqld_safe", tmp_path / "my.cnf"
    script.write_text((SAFE.parent / "malloc-lib-any.sh").read_text())
    options.write_text("[mysqld_safe]\nmalloc-lib=/usr/lib/libjemalloc.so.2\n")
    launcher = dict(nothing("mysqld_safe"), script=str(script))
    seen = configured(launcher, loaded, [str(options)])
    assert (seen.shown["configured"], seen.shown["managed"], seen.own) == (
        ["/usr/lib/libjemalloc.so.2"],
        False,
        None,
    )
    options.write_text(malloc_lib.with_block(options.read_text(), "/opt/libtcmalloc.so.4"))
    seen = configured(launcher, loaded, [str(options)])
    assert (seen.shown["configured"][0], seen.own) == ("/opt/libtcmalloc.so.4", "/opt/libtcmalloc.so.4")
    assert seen.shown["malloc_libs"][1] == {
        "file": str(options),
        "library": "/usr/lib/libjemalloc.so.2",
        "ours": False,
    }


EVIDENCE = {
    "exe": "/usr/sbin/mysqld",
    "secure_exec": False,
    "environ": "",
    "variables": {},
    "mapped": [],
    "deleted": [],
    "linked": None,
    "bound": {"malloc": "/lib/libc.so.6", "free": "/lib/libc.so.6"},
    "resolved": {},
    "problems": {},
    "error": None,
}


@pytest.mark.parametrize(
    ("paths", "own", "expected"),
    [
        ([], None, ("effective", None)),
        (["/usr/lib/libjemalloc.so.2"], None, ("intended", "stale_process")),
        (["/usr/lib/libresource.so"], None, ("effective", None)),
        (["/usr/lib/libresource.so", "/opt/mine.so"], "/opt/mine.so", ("intended", "stale_process")),
    ],
)
def test_a_server_is_judged_by_the_allocator_that_its_files_preload_and_not_by_other_preloads(
    paths, own, expected
):
    wanted = Wanted({"configured": paths, "managed": bool(own), "adopted": False, "overridden_by": []}, own)
    seen = allocator(EVIDENCE, wanted, "unconfined")
    assert (seen["level"], seen["reason"]) == expected
    assert (seen["name"], seen["path"]) == ("system", "/lib/libc.so.6")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.11.19-MariaDB-0+deb12u1-log (Debian 12)", ("mariadb", "10.11.19")),
        ("9.7.4 ((Debian))", ("mysql", "9.7.4")),
        ("8.0.36-28 (Percona Server (GPL), Release 28, Revision 1)", ("percona", "8.0.36")),
        ("mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 for debian-linux-gnu on x86_64 ( )", ("mariadb", "11.8.9")),
        (
            "/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)",
            ("mysql", "8.4.3"),
        ),
        ("no version", (None, None)),
    ],
)
def test_flavour_and_version_are_in_the_words_of_the_server(text, expected):
    assert identity(text) == expected
