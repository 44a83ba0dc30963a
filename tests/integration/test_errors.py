# SPDX-License-Identifier: GPL-3.0-or-later
"""Each mistake gives one clear error that names the thing and the fix, and nothing is changed on the host."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from live import BYTES, Host, Lab


def assert_refused(lab: Lab, host: Host, *words: str, **variables: Any) -> None:
    """The run fails, says each of the words, and the host is as before."""
    before = host.tree(), host.pid()
    done = lab.tune(host.name, **variables)
    assert done.rc != 0, done.out
    assert done.counted(host.name, "failed") == 1
    assert not [word for word in words if word not in done.said], done.out
    assert "Traceback" not in done.out
    assert (host.tree(), host.pid()) == before


@pytest.mark.quick
def test_a_wrong_allocator_name_is_named_with_the_right_ones(lab: Lab, deb12: Host) -> None:
    words = ("allocator_name is 'tcmaloc'", "jemalloc", "tcmalloc", "absolute path")
    assert_refused(lab, deb12, *words, allocator_name="tcmaloc")


@pytest.mark.quick
def test_wrong_sql_credentials_are_named_with_the_variable_to_set(lab: Lab, deb12: Host) -> None:
    path = "/root/wrong.cnf"
    deb12.put(path, "[client]\nuser = somebody\npassword = wrong\n")
    words = ("Access denied", "somebody", "preflight_defaults_file")
    assert_refused(lab, deb12, *words, preflight_defaults_file=path)


@pytest.mark.quick
def test_a_host_without_a_server_is_named(lab: Lab) -> None:
    if "plain12" not in lab.hosts:
        pytest.skip("the lab has no plain12: ./run lab up deb12 deb13 safe12 plain12")
    host = lab.hosts["plain12"]
    before = host.tree()

    done = lab.tune("plain12", tuning_hosts="plain")

    assert done.rc != 0, done.out
    assert "no mysqld or mariadbd runs here" in done.said
    assert "Install a server, or take the host out of the group" in done.said
    assert host.tree() == before


def test_an_unreachable_host_is_named_and_the_others_are_tuned(
    lab: Lab, safe12: Host, tmp_path: Path
) -> None:
    with socket.socket() as closed:  # bound and never listening
        closed.bind(("127.0.0.1", 0))
        ghost = f"ghost: {{ansible_host: 127.0.0.1, ansible_port: {closed.getsockname()[1]}}}"
        inventory = tmp_path / "ghost.yml"
        inventory.write_text(f"dbhosts: {{hosts: {{{ghost}}}}}\n")
        done = lab.tune("ghost:safe12", "-i", str(inventory))

    assert done.rc != 0, done.out
    assert done.counted("ghost", "unreachable") == 1
    assert "Connection refused" in done.said
    assert (done.counted("safe12", "failed"), safe12.effective()) == (0, True), done.out


def test_too_little_disk_space_for_sysbench_is_told_in_figures(lab: Lab, deb12: Host) -> None:
    before = deb12.tree(BYTES), deb12.pid()

    done = lab.tune("deb12", tuning_benchmark="before_after", sysbench_table_size=2_000_000_000)

    assert done.rc != 0, done.out
    assert "no disk space for sysbench: 4 tables of 2000000000 rows need about" in done.said
    assert re.search(r"about [\d,]+ MiB .*? has [\d,]+ MiB free; lower sysbench_tables or", done.said)
    assert (deb12.tree(BYTES), deb12.pid()) == before
    assert "fleet_mysqltune" not in deb12.sql("SHOW DATABASES; SELECT user FROM mysql.user")
