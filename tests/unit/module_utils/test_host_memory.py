"""What has to change, what cannot be changed, and the words for it."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import host_memory
from ansible_collections.fleet.mysqltune.plugins.module_utils.boot_settings import Roots
from ansible_collections.fleet.mysqltune.plugins.module_utils.host_memory import (
    HostMemoryError,
    asked,
    changes,
    lines,
    notes,
    observe,
    unsupported,
)
from memory_host import ENABLED, OURS_SYSCTL, OURS_THP, MemoryHost

THP = "transparent_huge_pages"


@pytest.fixture
def host(tmp_path):
    return MemoryHost(tmp_path)


def planned(host, **values):
    return changes(observe(host.roots), asked(values))


def told(host, **values):
    return notes(observe(host.roots), asked(values))


def test_keep_empty_and_absent_ask_for_nothing():
    nothing = dict.fromkeys((THP, "overcommit_memory", "swappiness"))
    assert asked({THP: "keep", "overcommit_memory": "", "swappiness": None}) == asked({}) == nothing
    assert asked({"overcommit_memory": 0})["overcommit_memory"] == "0"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (THP, "sometimes", "keep, madvise, never or always"),
        ("overcommit_memory", 3, "0, 1 or 2"),
        ("swappiness", "201", "0 to 200"),
        ("swappiness", -1, "0 to 200"),
    ],
)
def test_a_wrong_value_is_refused_with_those_that_may_be_used(name, value, words):
    with pytest.raises(HostMemoryError, match=f"{name} .* '{value}'. Use {words}"):
        asked({name: value})


def test_a_host_as_it_was_installed_needs_the_value_and_the_file(host):
    file = str(host.root / OURS_THP)
    found = planned(host, transparent_huge_pages="madvise")
    assert found == [{"setting": THP, "from": "always", "to": "madvise", "file": file}]
    assert lines(found) == [f"memory: {THP} always -> madvise, {file}"]


def test_a_value_that_runs_as_asked_still_has_to_last(host):
    host.put(ENABLED, "always [madvise] never\n")
    found = planned(host, transparent_huge_pages="madvise")
    assert [(change["from"], change["to"]) for change in found] == [("madvise", "madvise")]
    assert lines(found) == [f"memory: {THP} stays madvise, {host.root / OURS_THP}"]


def test_a_value_that_somebody_changed_at_run_time_is_set_without_touching_the_file(host):
    host.put(OURS_SYSCTL, "vm.swappiness = 1\n")
    found = planned(host, swappiness=1)
    assert found == [{"setting": "swappiness", "from": "60", "to": "1", "file": None}]
    assert lines(found) == ["memory: swappiness 60 -> 1"]


def test_nothing_asked_changes_nothing(host):
    assert planned(host) == []
    assert told(host) == []


def test_what_is_no_longer_asked_for_leaves_our_file_and_stays_until_the_boot(host):
    host.put(OURS_THP, host.roots.text(host.roots.file(THP), asked({THP: "never"})))
    host.put(OURS_SYSCTL, "vm.swappiness = 60\nvm.overcommit_memory = 1\n")
    found = planned(host, swappiness=60)
    assert [(change["setting"], change["to"]) for change in found] == [
        (THP, None),
        ("overcommit_memory", None),
    ]
    assert (
        lines(found)[0]
        == f"memory: {THP} leaves {host.root / OURS_THP}; what runs (always) stays until the next boot"
    )


def test_without_a_program_for_our_file_a_differing_value_fails_and_an_equal_one_is_left(host):
    (host.root / "usr/bin/systemd-tmpfiles").unlink()
    with pytest.raises(HostMemoryError, match=r"transparent_huge_pages is always.*no systemd-tmpfiles.*keep"):
        planned(host, transparent_huge_pages="madvise")
    host.put(ENABLED, "always [madvise] never\n")
    assert planned(host, transparent_huge_pages="madvise") == []


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "run/systemd/container"])
def test_in_a_container_nothing_is_planned_and_the_machine_is_named(host, mark):
    host.put(mark, "")
    assert planned(host, transparent_huge_pages="never", swappiness=60) == []
    assert unsupported(observe(host.roots), asked({})) == "container"
    (note,) = told(host, transparent_huge_pages="never", swappiness=60)
    assert note == (
        f"{THP} is always, never was asked for and not set: this host is a container, and the setting is its "
        "machine's. Set it there"
    )


def test_a_container_is_known_by_what_its_first_process_was_started_with(host):
    host.put("proc/1/environ", "PATH=/bin\0container=lxc\0")
    assert unsupported(observe(host.roots), asked({})) == "container"


def test_the_machines_own_trees_count_as_a_container_even_if_the_files_lie_elsewhere(host, monkeypatch):
    marked = []
    monkeypatch.setattr(
        host_memory, "in_container", lambda root="/", _proc="/proc": marked.append(root) or root == "/"
    )
    assert observe(host.roots)["container"] is False
    assert observe(host.roots._replace(proc="/proc"))["container"] is True
    assert observe(Roots("/sys", host.roots.proc, host.roots.config))["container"] is True


def test_what_cannot_be_written_is_told_and_not_planned(host, monkeypatch):
    monkeypatch.setattr(host_memory.os, "access", lambda path, _mode: path != host.roots.runtime(THP))
    assert planned(host, transparent_huge_pages="never") == []
    assert "read-only" in told(host, transparent_huge_pages="never")[0]
    assert unsupported(observe(host.roots), asked({THP: "never"})) == "read_only"
    assert unsupported(observe(host.roots), asked({THP: "always", "swappiness": 1})) is None


def test_a_kernel_without_huge_pages_is_as_good_as_never(host):
    (host.root / ENABLED).unlink()
    assert planned(host, transparent_huge_pages="madvise") == []
    assert told(host, transparent_huge_pages="madvise") == []
    assert told(host, transparent_huge_pages="always") == [
        f"the kernel of this host has no {THP}: nothing to set"
    ]


def test_what_wins_at_boot_is_told_only_if_it_differs(host):
    file = host.put("etc/sysctl.d/99-db.conf", "vm.swappiness = 30\n")
    assert told(host, swappiness=30) == told(host) == []
    (note,) = told(host, swappiness=1)
    assert note.startswith(f"{file} sets swappiness to 30 at boot and wins over our file")
