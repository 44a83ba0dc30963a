# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding servers in a /proc of our own making."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Optional

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.servers import (
    Instance,
    Process,
    alive,
    bytes_moved,
    find,
    identify,
    output_file,
    started_since,
    strangers,
    tree,
)

EXE = "/usr/sbin/mariadbd"
SAFE = "/usr/bin/mariadbd-safe"


class Proc:
    """A directory that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        exe: str = EXE,
        cwd: str = "/var/lib/mysql",
        args: Optional[List[str]] = None,
        unit: str = "mariadb.service",
        parent: int = 1,
        state: str = "S",
        start: Optional[int] = None,
    ) -> None:
        directory = self.root / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "exe").symlink_to(exe)
        (directory / "cwd").symlink_to(cwd)
        (directory / "cmdline").write_bytes("\0".join(args or [exe]).encode() + b"\0")
        (directory / "cgroup").write_text(f"1:name=systemd:/system.slice/{unit}\n0::/\n")
        fields = [state, str(parent), *["0"] * 17, str(start if start is not None else pid * 10), "0"]
        (directory / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def instance(**changes: Any) -> Instance:
    launcher = {"kind": "systemd", "unit": "mariadb.service", **changes.pop("launcher", {})}
    return Instance.of(
        {"name": "x", "pid": 10, "exe": EXE, "datadir": "/var/lib/mysql", "launcher": launcher, **changes}
    )


def test_the_server_of_a_unit_is_found_in_its_control_group(proc: Proc) -> None:
    proc.add(10, unit="mariadb.service")
    proc.add(11, unit="mariadb@b.service")
    proc.add(12, unit="ssh.service", exe="/usr/bin/vim")
    assert find(instance(), str(proc.root)) == Process(10, 100)


def test_a_program_that_was_replaced_since_is_still_the_server(proc: Proc) -> None:
    proc.add(10, exe=f"{EXE} (deleted)")
    assert find(instance(), str(proc.root)) == Process(10, 100)


def test_helpers_with_the_same_program_are_no_servers(proc: Proc) -> None:
    proc.add(10)
    proc.add(11, args=[EXE, "--wsrep_recover"])
    proc.add(12, args=[EXE, "--help", "--verbose"])
    assert find(instance(), str(proc.root)) == Process(10, 100)


def test_a_process_that_waits_to_be_buried_is_gone(proc: Proc) -> None:
    proc.add(10, state="Z")
    assert find(instance(), str(proc.root)) is None
    assert identify(10, str(proc.root)) is None


@pytest.mark.parametrize("args", [None, [EXE, "--datadir=/srv/a"]])
def test_without_a_unit_the_data_directory_decides(proc: Proc, args: Optional[List[str]]) -> None:
    proc.add(10, unit="session-1.scope", cwd="/srv/b")
    proc.add(11, unit="session-1.scope", cwd="/" if args else "/srv/a", args=args)
    one = instance(datadir="/srv/a", launcher={"unit": "session-1.scope"})
    assert find(one, str(proc.root)) == Process(11, 110)


def test_two_servers_in_one_unit_are_told_apart_by_their_directories(proc: Proc) -> None:
    proc.add(10, cwd="/srv/a")
    proc.add(11, cwd="/srv/b")
    assert find(instance(datadir="/srv/a"), str(proc.root)) == Process(10, 100)


def test_the_last_server_of_a_unit_is_not_taken_for_another_that_has_gone(proc: Proc) -> None:
    proc.add(11, cwd="/srv/b", args=[EXE, "--datadir=/srv/b"])
    assert find(instance(datadir="/srv/a"), str(proc.root)) is None


def test_a_server_in_the_unit_that_nobody_named_is_a_stranger(proc: Proc) -> None:
    proc.add(10, cwd="/srv/a")
    proc.add(11, cwd="/srv/b")
    proc.add(12, cwd="/srv/c", args=[EXE, "--help"])
    proc.add(13, cwd="/srv/d", unit="another.service")
    known = [instance(datadir="/srv/a")]
    assert strangers("mariadb.service", known, str(proc.root)) == [11]
    assert strangers("mariadb.service", [*known, instance(datadir="/srv/b")], str(proc.root)) == []


def test_a_reused_pid_is_another_process(proc: Proc) -> None:
    proc.add(10, start=500)
    assert not alive(Process(10, 100), str(proc.root))
    assert alive(Process(10, 500), str(proc.root))
    assert not alive(None, str(proc.root)) and not alive(Process(99, 1), str(proc.root))


def test_the_tree_begins_with_what_restarts_the_server(proc: Proc) -> None:
    safe = os.path.realpath(SAFE)
    proc.add(5, exe="/bin/dash", args=["/bin/sh", SAFE, "--datadir=/var/lib/mysql"])
    proc.add(6, exe="/bin/dash", args=["/bin/sh", SAFE, "--datadir=/srv/b"])
    proc.add(10, parent=5)
    proc.add(11, parent=6, cwd="/srv/b", unit="session-1.scope")
    one = instance(launcher={"kind": "mysqld_safe", "script": safe})
    assert tree(one, str(proc.root)) == [5, 10]


def test_the_keeper_of_another_server_does_not_belong_to_the_tree(proc: Proc) -> None:
    safe = os.path.realpath(SAFE)
    proc.add(5, exe="/bin/dash", args=["/bin/sh", SAFE])
    proc.add(6, exe="/bin/dash", args=["/bin/sh", SAFE])
    proc.add(11, parent=6, cwd="/srv/b", unit="session-1.scope")
    one = instance(launcher={"kind": "mysqld_safe", "script": safe})
    assert tree(one, str(proc.root)) == [5]


def test_the_error_log_is_where_errors_are_written(proc: Proc, tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    log.touch()
    proc.add(10)
    (proc.root / "10" / "fd" / "2").symlink_to(log)
    proc.add(11)
    (proc.root / "11" / "fd" / "2").symlink_to("socket:[1234]")
    assert output_file(10, str(proc.root)) == str(log)
    assert output_file(11, str(proc.root)) is None


def test_a_process_is_dated_by_the_seconds_since_the_boot() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert started_since(Process(1, 100 * ticks), 99.0)
    assert not started_since(Process(1, 100 * ticks), 101.0)


@pytest.mark.parametrize(
    ("unit", "expected"), [("mysql.service", "mysql.service"), ("session-3.scope", None), (None, None)]
)
def test_a_session_is_no_service(unit: Optional[str], expected: Optional[str]) -> None:
    assert instance(launcher={"unit": unit}).service == expected


def test_only_a_single_process_of_the_unit_is_the_server_without_its_directory(proc: Proc) -> None:
    proc.add(10, cwd="/")
    assert find(instance(), str(proc.root)) == Process(10, 100)
    proc.add(11, cwd="/srv/b")
    assert find(instance(), str(proc.root)) is None


def test_what_a_process_reads_is_counted() -> None:
    before = bytes_moved(os.getpid())
    Path(__file__).read_bytes()
    assert bytes_moved(os.getpid()) - before >= Path(__file__).stat().st_size
    assert bytes_moved(0) == 0
