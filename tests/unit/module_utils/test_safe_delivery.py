"""A mysqld_safe script on a host: links, syntax check, running servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from ansible_collections.fleet.mysqltune.plugins.module_utils import safe_delivery as sd
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import run
from safe_stage import fixture_text

TCMALLOC = "/usr/lib/libtcmalloc_minimal.so.4"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    path = tmp_path / "mariadbd-safe"
    path.write_text(fixture_text("family-c-mariadb.sh"))
    path.chmod(0o755)
    (tmp_path / "mysqld_safe").symlink_to("mariadbd-safe")
    return path


def wanted(script: Path, library: str | None = TCMALLOC, name: str = "mysqld_safe") -> sd.Delivery:
    return sd.delivery(str(script.parent / name), library, proc=str(script.parent / "proc"))


def process(script: Path, pid: int, parent: int, *argv: str, preload: str = "") -> None:
    directory = script.parent / "proc" / str(pid)
    directory.mkdir()
    (directory / "stat").write_text(f"{pid} (odd ) name) S {parent} 1 1 0")
    (directory / "cmdline").write_text("\0".join(argv) + "\0")
    (directory / "environ").write_text(f"PATH=/bin\0LD_PRELOAD={preload}\0")


def server(script: Path, preload: str = "", path: str | None = None) -> None:
    """Let a server run that this script, or the one at ``path``, started."""
    process(script, 1, 0, "/sbin/init")
    process(script, 20, 1, "/bin/sh", path or str(script.parent / "mysqld_safe"), "--datadir=/d")
    process(script, 30, 20, "/usr/sbin/mariadbd", "--datadir=/d", preload=preload)


def test_a_link_is_followed_and_both_paths_are_told(script):
    decision = wanted(script)
    assert (decision.path, decision.real_path) == (str(script.parent / "mysqld_safe"), str(script))
    assert decision.changed
    assert decision.diff["after_header"] == str(script)
    assert decision.facts()["preload"] == [TCMALLOC]


def test_without_a_running_server_no_restart_is_required(script):
    assert (wanted(script).in_use, wanted(script).restart_required) == (False, False)


def test_a_server_that_this_script_started_without_the_library_needs_a_restart(script):
    server(script)
    assert (wanted(script).in_use, wanted(script).restart_required) == (True, True)
    assert not wanted(script, None).restart_required


def test_a_server_that_has_the_library_needs_none_whatever_else_it_inherited(script):
    server(script, preload=f"{TCMALLOC}:/opt/governor.so")
    script.write_text(safe.patched(script.read_text(), TCMALLOC))
    assert not wanted(script).restart_required
    assert wanted(script, None).restart_required
    assert wanted(script, "/usr/lib/libjemalloc.so.2").restart_required


def test_a_server_that_another_script_started_does_not_count(script):
    server(script, path="/opt/other/mysqld_safe")
    assert (wanted(script).in_use, wanted(script).bypassed) == (False, True)


def test_the_scripts_own_shell_checks_the_new_text(script, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nif true\n")
    assert sd.check_syntax(str(script), script.read_text(), run) is None
    assert "/bin/sh -n says:" in (sd.check_syntax(str(broken), broken.read_text(), run) or "")


def test_a_script_that_does_not_exist_is_an_error_that_names_the_option(script):
    with pytest.raises(safe.ScriptError, match="Set path"):
        wanted(script, name="nothing")


def test_absent_on_a_script_that_is_not_understood_changes_nothing_unless_it_may_preload(script):
    script.write_text("#!/bin/sh\nexec /opt/safe\n")
    assert not wanted(script, None).changed
    script.write_text("#!/bin/sh\nexport LD_PRELOAD=/x.so\nexec /opt/safe\n")
    with pytest.raises(safe.ScriptError):
        wanted(script, None)
    with pytest.raises(safe.ScriptError):
        wanted(script)


def test_bytes_that_are_no_text_survive_and_can_be_shown(script):
    script.write_bytes(script.read_bytes() + b"# \xff\xfe\n")
    decision = wanted(script)
    assert decision.after.encode("utf-8", "surrogateescape").endswith(b"# \xff\xfe\n")
    decision.diff["after"].encode()


def test_the_diff_keeps_secrets_to_itself(script):
    script.write_text(script.read_text() + "MYSQL_PASSWORD=hunter2\nmysqladmin --password 'hunter2' ping\n")
    decision = wanted(script)
    assert "hunter2" in decision.after
    assert "hunter2" not in str(decision.diff)
    assert "MYSQL_PASSWORD=****" in decision.diff["before"]


def test_real_processes_can_be_listed():
    assert list(sd.started_by("/nonexistent")) == []
    assert dict(sd._processes("/proc"))[os.getpid()][0] == os.getppid()
