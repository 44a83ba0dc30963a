"""The module from its arguments to the files and values of a host made of files, and back again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import Journal, restore
from ansible_collections.fleet.mysqltune.plugins.modules import host_memory as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from memory_host import ENABLED, OURS_SYSCTL, OURS_THP, MemoryHost

ASKED = {"transparent_huge_pages": "madvise", "overcommit_memory": 1, "swappiness": 1}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryHost:
    monkeypatch.setattr(module, "STATE_ROOT", str(tmp_path / "state"))
    return MemoryHost(tmp_path / "root")


@pytest.fixture
def run(host: MemoryHost, capsys: pytest.CaptureFixture[str]):
    roots = dict(zip(("sys_root", "proc_root", "config_root"), host.roots, strict=True))

    def call(**params):
        with patch_module_args({**roots, **params}), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return call


def undo(tmp_path, run_id=None):
    return restore(run_id, str(tmp_path / "state"))


def test_the_first_call_changes_files_and_values_and_the_second_nothing(run, host):
    first = run(**ASKED)
    assert first["changed"]
    assert first["running"] == {
        "transparent_huge_pages": "madvise",
        "overcommit_memory": "1",
        "swappiness": "1",
    }
    assert f"w {host.root}/{ENABLED} - - - - madvise\n" in host.text(OURS_THP)
    assert "vm.overcommit_memory = 1\nvm.swappiness = 1\n" in host.text(OURS_SYSCTL)
    before = host.tree()
    second = run(**ASKED)
    assert (second["changed"], second["changes"], second["diff"]) == (False, [], [])
    assert second["msg"] == "nothing to change"
    assert host.tree() == before


def test_undo_brings_back_every_byte_and_value(run, host, tmp_path):
    host.put(OURS_SYSCTL, "vm.swappiness = 30\n")
    before, values = host.tree(), host.values()
    assert run(**ASKED, run_id="r1")["changed"]
    assert host.values() == ["madvise", "1", "1"]
    done = undo(tmp_path, "r1")
    assert (done.ok, done.changed) == (True, True)
    assert host.values() == values
    assert set(host.tree()) == set(before)
    assert host.text(OURS_SYSCTL) == "vm.swappiness = 30\n"


def test_undo_leaves_a_value_that_somebody_changed_since(run, host, tmp_path):
    run(**ASKED, run_id="r1")
    host.put("proc/sys/vm/swappiness", "42\n")
    done = undo(tmp_path, "r1")
    assert not done.ok
    assert "swappiness" in done.message
    assert host.text("proc/sys/vm/swappiness") == "42\n"
    assert host.values() == ["always", "0", "42"]


def test_check_mode_with_diff_shows_all_and_touches_nothing(run, host):
    before = host.tree()
    would = run(**ASKED, _ansible_check_mode=True, _ansible_diff=True)
    assert would["changed"]
    assert host.tree() == before
    shown = {part["after_header"]: (part["before"], part["after"]) for part in would["diff"]}
    assert shown[host.roots.runtime("transparent_huge_pages")] == ("always\n", "madvise\n")
    assert run(**ASKED, _ansible_diff=True)["diff"] == would["diff"]
    assert shown[str(host.root / OURS_THP)] == ("", host.text(OURS_THP))


def test_a_setting_that_is_not_asked_for_any_more_leaves_its_file(run, host):
    run(**ASKED)
    kept = run(transparent_huge_pages="keep", swappiness=1)
    assert kept["changed"]
    assert "stays until the next boot" in kept["msg"]
    assert not host.has(OURS_THP)
    assert "overcommit" not in host.text(OURS_SYSCTL)
    assert run()["changed"]
    assert not host.has(OURS_SYSCTL)
    assert not run()["changed"]
    assert host.values() == ["madvise", "1", "1"]


def test_a_container_is_reported_and_left_alone(run, host):
    host.put("run/.containerenv", "")
    before = host.tree()
    said = run(**ASKED)
    assert (said["changed"], said["supported"], said["reason"]) == (False, False, "container")
    assert said["running"]["transparent_huge_pages"] == "always"
    assert "its machine's" in said["msg"]
    assert host.tree() == before


def test_without_a_program_for_the_next_boot_nothing_is_changed_at_all(run, host):
    (host.root / "usr/lib/systemd/systemd-sysctl").unlink()
    before = host.tree()
    failed = run(**ASKED)
    assert failed["failed"]
    assert "there is no sysctl" in failed["msg"]
    assert host.tree() == before


def test_a_value_that_the_kernel_does_not_take_undoes_the_files_too(run, host, monkeypatch):
    before = host.tree()
    monkeypatch.setattr(Journal, "set_value", lambda *_: True)
    failed = run(swappiness=1)
    assert "read back otherwise: swappiness 60 -> 1" in failed["msg"]
    assert host.tree() == before


def test_what_wins_at_the_next_boot_is_in_the_notes(run, host):
    host.put("etc/sysctl.d/99-db.conf", "vm.swappiness = 30\n")
    assert "99-db.conf sets swappiness to 30" in run(**ASKED)["notes"][0]
    assert run(**ASKED)["notes"]
