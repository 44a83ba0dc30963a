# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages and vm.* values: told in a container, set in trees of files, undone; no server is restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Done, Host, Lab

TREES = "/root/trees"
THP = f"{TREES}/sys/kernel/mm/transparent_hugepage/enabled"
SWAPPINESS = f"{TREES}/proc/sys/vm/swappiness"
OURS = f"{TREES}/etc/tmpfiles.d/fleet-mysqltune-thp.conf {TREES}/etc/sysctl.d/60-fleet-mysqltune.conf"
MAKE_TREES = f"""
rm -rf {TREES}
mkdir -p $(dirname {THP}) $(dirname {SWAPPINESS}) {TREES}/etc/sysctl.d {TREES}/usr
ln -s /usr/bin {TREES}/usr/bin
ln -s /usr/sbin {TREES}/usr/sbin
echo '[always] madvise never' >{THP}
echo 60 >{SWAPPINESS}
echo 0 >{TREES}/proc/sys/vm/overcommit_memory
"""
ASKED = {
    "allocator_name": "system",  # as the server runs: only the memory is to change
    "host_memory_transparent_huge_pages": "madvise",
    "host_memory_swappiness": 1,
    "host_memory_sys_root": f"{TREES}/sys",
    "host_memory_proc_root": f"{TREES}/proc",
    "host_memory_config_root": f"{TREES}/etc",
}


@pytest.fixture
def trees(deb12: Host) -> Iterator[Host]:
    """The host with trees beside those of its kernel, which is the lab machine's own."""
    deb12.sh(MAKE_TREES)
    yield deb12
    deb12.sh(f"rm -rf {TREES}")


def asked_again(lab: Lab, host: Host) -> Done:
    done = lab.tune(host.name, **ASKED)
    assert done.rc == 0, done.out
    return done


def values(host: Host) -> list[str]:
    return host.sh(f"grep -o '\\[.*\\]' {THP} || cat {THP}; echo; cat {SWAPPINESS}").split()


@pytest.mark.quick
def test_in_a_container_the_settings_of_the_machine_are_told_and_not_touched(lab: Lab, deb12: Host) -> None:
    kernel = "cat /sys/kernel/mm/transparent_hugepage/enabled /proc/sys/vm/swappiness"
    before = deb12.sh(kernel), deb12.tree()
    policy = "always" if "[never]" in before[0] else "never"

    done = lab.tune("deb12", allocator_name="system", host_memory_transparent_huge_pages=policy)

    assert done.rc == 0, done.out
    assert done.counted("deb12", "changed") == 0
    assert f"{policy} was asked for and not set: this host is a container" in done.said
    assert (deb12.sh(kernel), deb12.tree()) == before


@pytest.mark.quick
def test_memory_alone_is_changed_without_a_restart_once_and_undone(lab: Lab, trees: Host) -> None:
    pid, before = trees.pid(), trees.tree(TREES)

    check = lab.tune("deb12", "--check", "--diff", **ASKED)
    assert check.rc == 0, check.out
    assert f"+w {THP} - - - - madvise" in check.out
    assert "+vm.swappiness = 1" in check.out
    assert "1 host: 1 would change." in check.out
    assert (trees.tree(TREES), trees.touched()) == (before, False)

    first = asked_again(lab, trees)
    assert first.counted("deb12", "changed") == 1
    assert "1 host: 1 tuned" in first.out
    assert values(trees) == ["madvise", "1"]
    assert f"w {THP} - - - - madvise" in trees.sh(f"cat {OURS}")
    changed = trees.tree(TREES)

    second = asked_again(lab, trees)
    assert second.counted("deb12", "changed") == 0
    assert trees.tree(TREES) == changed
    assert lab.play("verify.yml", "deb12", **ASKED).rc == 0

    undone = lab.play("rollback.yml", "deb12", **ASKED)
    assert undone.rc == 0, undone.out
    assert values(trees)[0].strip("[]") == "always"
    assert values(trees)[-1] == "60"
    assert trees.sh(f"ls {OURS} 2>/dev/null; ls {TREES}/etc", check=False) == "sysctl.d"
    assert lab.play("verify.yml", "deb12", **ASKED).rc != 0
    assert trees.pid() == pid


@pytest.mark.quick
def test_a_value_that_somebody_changed_since_is_left_alone_and_told(lab: Lab, trees: Host) -> None:
    asked_again(lab, trees)
    trees.sh(f"echo 42 >{SWAPPINESS}")

    undone = lab.play("rollback.yml", "deb12", **ASKED)

    assert undone.rc != 0
    assert SWAPPINESS in undone.said
    assert values(trees)[-1] == "42"


def test_a_server_that_does_not_start_takes_the_memory_back_too(lab: Lab, trees: Host, crash: Path) -> None:
    trees.copy(crash, "/usr/lib/libcrash.so", "0755")
    before = trees.tree(f"{TREES}/etc")

    done = lab.tune("deb12", **{**ASKED, "allocator_name": "/usr/lib/libcrash.so"})

    assert done.rc != 0
    assert values(trees)[0].strip("[]") == "always"
    assert values(trees)[-1] == "60"
    assert trees.tree(f"{TREES}/etc") == before
    assert trees.sql("SELECT 1") == "1"
    trees.sh("rm /usr/lib/libcrash.so")
