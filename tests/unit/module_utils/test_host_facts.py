from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.host_facts import distribution, host_facts, thp

FIXTURES = Path(__file__).parents[2] / "fixtures/os-release"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("debian-12", {"id": "debian", "version": "12", "like": []}),
        ("debian-13", {"id": "debian", "version": "13", "like": []}),
        ("debian-sid", {"id": "debian", "version": "", "like": []}),
    ],
)
def test_the_distribution_is_read_from_os_release(name, expected):
    assert distribution((FIXTURES / f"{name}.txt").read_text()) == expected


def test_families_are_a_list():
    text = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
    assert distribution(text) == {"id": "rocky", "version": "9.4", "like": ["rhel", "centos", "fedora"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("always [madvise] never\n", "madvise"), ("[always] madvise never", "always"), ("", "unknown")],
)
def test_the_chosen_huge_page_policy_is_the_one_in_brackets(text, expected):
    assert thp(text) == expected


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    return tmp_path


def facts(tree):
    return host_facts(str(tree / "proc"), str(tree / "sys"), str(tree))


@pytest.mark.parametrize(
    ("path", "text", "limit"),
    [
        ("memory.max", "512000", 512000),
        ("memory.max", "max", 1024000),
        ("memory/memory.limit_in_bytes", "512000", 512000),
        ("memory/memory.limit_in_bytes", "9223372036854771712", 1024000),
    ],
)
def test_the_memory_limit_of_the_control_group_counts_if_it_is_lower(tree, path, text, limit):
    (tree / "sys/fs/cgroup" / path).write_text(text + "\n")
    assert facts(tree)["memory_total"] == 1024000
    assert facts(tree)["memory_limit"] == limit


def test_a_bare_tree_is_no_container_and_has_no_systemd(tree):
    assert (facts(tree)["container"], facts(tree)["init"]) == (False, "other")
    (tree / "run/systemd/system").mkdir(parents=True)
    (tree / "run/.containerenv").touch()
    assert (facts(tree)["container"], facts(tree)["init"]) == (True, "systemd")


def test_this_host_has_all_facts():
    found = host_facts()
    assert found["memory_total"] >= found["memory_limit"] > 0
    assert found["cpus"] >= 1
    assert found["machine"] == os.uname().machine
