from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import processes

UNIX = Path(__file__).parents[2] / "fixtures/net_unix/debian-12.txt"


class Proc:
    """A /proc with the processes that a test adds."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "self/ns").mkdir(parents=True)
        (directory / "self/ns/pid").symlink_to("pid:[1]")
        (directory / "stat").write_text("cpu 1\nbtime 1700000000\n")

    def add(self, pid, comm, exe=None, argv=None, parent=1, namespace="pid:[1]", state="S"):
        directory = self.directory / str(pid)
        (directory / "ns").mkdir(parents=True)
        (directory / "comm").write_text(comm + "\n")
        (directory / "exe").symlink_to(exe or f"/usr/sbin/{comm}")
        (directory / "cmdline").write_bytes("\0".join(argv or [comm, ""]).encode())
        (directory / "stat").write_text(f"{pid} ({comm}) {state} {parent} " + "0 " * 17 + "500 0 0\n")
        (directory / "ns/pid").symlink_to(namespace)
        return directory


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def test_servers_are_found_by_name_and_nothing_else_is(proc):
    proc.add(10, "mysqld")
    proc.add(11, "mariadbd")
    proc.add(12, "mysqld-debug")
    proc.add(13, "renamed", exe="/opt/mysql/bin/mysqld (deleted)")
    proc.add(20, "mysqld_safe")
    proc.add(21, "mysqld_exporter")
    proc.add(22, "bash")
    assert processes.servers(str(proc.directory)) == [10, 11, 12, 13]


def test_servers_of_containers_are_not_ours(proc):
    proc.add(10, "mysqld", namespace="pid:[2]")
    assert processes.servers(str(proc.directory)) == []


def test_helpers_children_and_dead_processes_are_no_servers(proc):
    proc.add(10, "mariadbd")
    proc.add(11, "mariadbd", parent=10)
    proc.add(12, "mariadbd", argv=["mariadbd", "--help", "--verbose", ""])
    proc.add(13, "mariadbd", argv=["mariadbd", "--wsrep_recover", ""])
    proc.add(14, "mariadbd", state="Z")
    assert processes.servers(str(proc.directory)) == [10]


def test_the_start_is_an_epoch(proc):
    proc.add(10, "mysqld")
    assert processes.started(10, str(proc.directory)) == 1700000000 + 500 / os.sysconf("SC_CLK_TCK")


def test_the_user_is_the_effective_one(proc):
    (proc.add(10, "mysqld") / "status").write_text("Name:\tmysqld\nUid:\t4000000\t0\t0\t0\n")
    (proc.add(11, "mysqld") / "status").write_text("Uid:\t0\t4000000\t0\t0\n")
    assert processes.user(10, str(proc.directory)) == "root"
    assert processes.user(11, str(proc.directory)) == "4000000"


def test_memory_is_in_bytes(proc):
    directory = proc.add(10, "mysqld")
    (directory / "status").write_text("VmRSS:\t    1024 kB\n")
    (directory / "smaps_rollup").write_text("Rss: 1024 kB\nPss:   1000 kB\nAnonHugePages:  2048 kB\n")
    assert processes.memory(10, str(proc.directory)) == {
        "rss": 1 << 20,
        "pss": 1024000,
        "anon_huge_pages": 2 << 20,
    }


def test_the_pages_of_a_huge_server_are_not_added_up(proc):
    directory = proc.add(10, "mysqld")
    (directory / "status").write_text(f"VmRSS:\t{64 << 20} kB\n")
    (directory / "smaps_rollup").write_text("Pss: 1 kB\n")
    assert processes.memory(10, str(proc.directory)) == {
        "rss": 64 << 30,
        "pss": None,
        "anon_huge_pages": None,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mysqld (enforce)\n", "mysqld (enforce)"),
        ("u:r:t:s0\0", "u:r:t:s0"),
        ("", "unconfined"),
        (None, "unconfined"),
    ],
)
def test_a_confinement_is_shown_by_its_name(proc, text, expected):
    directory = proc.add(10, "mysqld")
    (directory / "attr").mkdir()
    if text is not None:
        (directory / "attr/current").write_text(text)
    assert processes.confinement(10, str(proc.directory)) == expected


def test_only_listening_sockets_with_a_path_count():
    found = processes.parse_unix(UNIX.read_text())
    assert found["523232"] == "/run/mysqld/mysqld.sock"
    assert "524001" not in found  # a connection


def test_the_sockets_of_a_process_are_those_it_has_open(tmp_path):
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        assert path in processes.sockets(os.getpid())
    assert path not in processes.sockets(os.getpid())


def test_all_facts_of_a_live_process_are_there():
    found = processes.facts(os.getpid())
    assert set(found) == {"user", "started", "memory", "confinement"}
    assert found["memory"]["rss"] > 1 << 20
