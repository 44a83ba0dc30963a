"""What the two files of ours say, and which settings of others win over them at boot."""

from __future__ import annotations

import os

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.boot_settings import (
    Roots,
    boot_value,
    foreign,
    running_value,
    sysctl_values,
    tmpfiles_rules,
)
from memory_host import ENABLED, OURS_SYSCTL, OURS_THP, MemoryHost

THP = "transparent_huge_pages"


@pytest.fixture
def host(tmp_path):
    return MemoryHost(tmp_path)


def found(host):
    return [
        (other["setting"], other["value"], os.path.relpath(other["file"], host.root))
        for other in foreign(host.roots)
    ]


def rule(host, value, path=None):
    return f"w {path or host.roots.runtime(THP)} - - - - {value}\n"


def test_our_files_of_a_real_host_are_those_that_its_boot_reads():
    wanted = {THP: "madvise", "overcommit_memory": "1", "swappiness": "1"}
    roots = Roots()
    thp, sysctl = roots.file(THP), roots.file("swappiness")
    assert thp == "/etc/tmpfiles.d/fleet-mysqltune-thp.conf"
    assert roots.text(thp, wanted).endswith(
        "\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"
    )
    assert (sysctl, roots.file("overcommit_memory")) == ("/etc/sysctl.d/60-fleet-mysqltune.conf", sysctl)
    assert roots.text(sysctl, wanted).endswith("\nvm.overcommit_memory = 1\nvm.swappiness = 1\n")
    assert roots.text(sysctl, {**dict.fromkeys(wanted), THP: "never"}) is None
    assert roots.system == "/"


def test_the_words_of_the_kernel_are_the_running_values(host):
    host.put("proc/sys/vm/overcommit_memory", "2\n")
    assert running_value(THP, host.roots) == "always"
    assert running_value("overcommit_memory", host.roots) == "2"
    (host.root / ENABLED).unlink()
    assert running_value(THP, host.roots) is None


def test_what_our_files_say_is_read_back(host):
    wanted = {THP: "never", "overcommit_memory": None, "swappiness": "10"}
    for path, setting in ((OURS_THP, THP), (OURS_SYSCTL, "swappiness")):
        host.put(path, host.roots.text(host.roots.file(setting), wanted))
    assert {name: boot_value(name, host.roots) for name in wanted} == wanted


def test_sysctl_lines_are_read_as_sysctl_reads_them():
    text = "# vm.swappiness = 5\n; x = 1\nvm/swappiness=7\n\n-vm.overcommit_memory =2\nvm.swappiness = 8\nnoise\n"
    assert sysctl_values(text) == {"vm.swappiness": "8", "vm.overcommit_memory": "2"}


def test_only_lines_that_write_to_a_file_are_tmpfiles_rules():
    text = "# w /a - - - - x\nw! /a 0644 - - - some words\nd /b 0755 - - -\nf+ /c - - - - y\nw /short\n"
    assert tmpfiles_rules(text) == [("/a", "some words"), ("/c", "y")]


def test_of_two_rules_for_one_path_the_earlier_file_wins(host):
    host.put("usr/lib/tmpfiles.d/10-thp.conf", rule(host, "always"))
    host.put("usr/lib/tmpfiles.d/zz-thp.conf", rule(host, "never"))
    assert found(host) == [(THP, "always", "usr/lib/tmpfiles.d/10-thp.conf")]


def test_of_two_patterns_for_one_path_the_later_file_wins(host):
    pattern = f"{host.root}/sys/kernel/mm/*/enabled"
    host.put("etc/tmpfiles.d/10-thp.conf", rule(host, "always", pattern))
    host.put("etc/tmpfiles.d/zz-thp.conf", rule(host, "never", pattern))
    assert found(host) == [(THP, "never", "etc/tmpfiles.d/zz-thp.conf")]


def test_a_file_of_the_administrator_hides_the_packages_file_of_that_name(host):
    host.put("usr/lib/tmpfiles.d/10-thp.conf", rule(host, "always"))
    host.put("etc/tmpfiles.d/10-thp.conf", "")
    assert found(host) == []


@pytest.mark.parametrize(
    "path", ["usr/lib/sysctl.d/99-db.conf", "run/sysctl.d/61-db.conf", "etc/sysctl.conf"]
)
def test_a_later_sysctl_file_wins(host, path):
    host.put(path, "vm.swappiness = 30\nnet.core.somaxconn = 1024\n")
    assert found(host) == [("swappiness", "30", path)]


def test_an_earlier_sysctl_file_does_not_win(host):
    host.put("etc/sysctl.d/50-db.conf", "vm.swappiness = 30\n")
    assert found(host) == []


def test_an_enabled_unit_a_script_and_sysfs_conf_are_found_with_the_policy_they_set(host):
    host.put(
        "etc/systemd/system/multi-user.target.wants/disable-thp.service",
        "[Service]\nExecStart=/bin/sh -c 'echo never > /sys/kernel/mm/transparent_hugepage/enabled'\n",
    )
    host.put("etc/systemd/system/idle.service", "ExecStart=tee /sys/kernel/mm/transparent_hugepage/enabled\n")
    host.put("etc/rc.local", "# echo never > /sys/kernel/mm/transparent_hugepage/enabled\n")
    host.put("etc/sysfs.conf", "kernel/mm/transparent_hugepage/enabled = always\n")
    host.put("etc/init.d/thp", "f=/sys/kernel/mm/transparent_hugepage/enabled\n")
    assert found(host) == [
        (THP, "never", "etc/systemd/system/multi-user.target.wants/disable-thp.service"),
        (THP, None, "etc/init.d/thp"),
        (THP, "always", "etc/sysfs.conf"),
    ]


def test_the_active_profile_of_tuned_counts_with_what_it_includes_if_tuned_starts_at_boot(host):
    host.put(
        "usr/lib/tuned/base/tuned.conf", "[vm]\ntransparent_hugepages=always\n[sysctl]\nvm.swappiness=10\n"
    )
    host.put(
        "etc/tuned/db/tuned.conf", "[main]\nsummary=50% more\ninclude=base\n[sysctl]\nvm.swappiness = 1\n"
    )
    host.put("etc/tuned/active_profile", "db\n")
    assert found(host) == []
    host.put("etc/systemd/system/multi-user.target.wants/tuned.service", "")
    assert found(host) == [
        ("swappiness", "1", "etc/tuned/db/tuned.conf"),
        (THP, "always", "usr/lib/tuned/base/tuned.conf"),
    ]


def test_a_profile_that_includes_itself_or_cannot_be_parsed_does_no_harm(host):
    host.put("etc/systemd/system/multi-user.target.wants/tuned.service", "")
    host.put("etc/tuned/active_profile", "loop broken gone\n")
    host.put("etc/tuned/loop/tuned.conf", "[main]\ninclude=loop\n[vm]\ntransparent_hugepage=never\n")
    host.put("etc/tuned/broken/tuned.conf", "no section\n")
    assert found(host) == [(THP, "never", "etc/tuned/loop/tuned.conf")]
