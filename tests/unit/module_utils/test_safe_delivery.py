"""A mysqld_safe script on a host: links, syntax check, running servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import malloc_lib, option_file, safe_methods
from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from ansible_collections.fleet.mysqltune.plugins.module_utils import safe_delivery as sd
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import run
from safe_scripts import fixture_text

TCMALLOC = "/usr/lib/libtcmalloc_minimal.so.4"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(option_file, "GLOBAL_FILES", (f"{tmp_path}/my.cnf",))
    (tmp_path / "proc").mkdir()
    path = tmp_path / "mariadbd-safe"
    path.write_text(fixture_text("family-c-mariadb.sh"))
    path.chmod(0o755)
    (tmp_path / "mysqld_safe").symlink_to("mariadbd-safe")
    return path


def wanted(
    script: Path, library: str | None = TCMALLOC, name: str = "mysqld_safe", **more: Any
) -> sd.Delivery:
    return sd.delivery(str(script.parent / name), sd.Wanted(library, **more), str(script.parent / "proc"))


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
    assert dict(sd._processes("/proc"))[os.getpid()][0] == os.getppid()


JEMALLOC = "/usr/lib/libjemalloc.so.2"


@pytest.fixture
def native(script: Path) -> Path:
    """A script that knows malloc-lib."""
    script.write_text(fixture_text("malloc-lib-any.sh"))
    return script


def with_malloc_lib(script: Path, library: str, name: str = "my.cnf") -> Path:
    path = script.parent / name
    path.write_text(f"[mysqld_safe]\nmalloc-lib={library}\n")
    return path


def odd(script: Path) -> None:
    """Start the server in a way that is not understood."""
    script.write_text(script.read_text().replace('"$ledir/$MYSQLD"', '"$STAGE/mysqld"'))


def test_malloc_lib_writes_the_option_file_and_leaves_the_script(native):
    done = wanted(native, method="malloc_lib")
    assert [(change.path, change.kind, change.before) for change in done.changes] == [
        (f"{native.parent}/my.cnf", "option_file", None)
    ]
    assert done.changes[0].after == malloc_lib.with_block("", TCMALLOC)
    facts = done.facts()
    assert (facts["method"], facts["preload"], facts["option_files"]) == (
        "malloc_lib",
        [TCMALLOC],
        [f"{native.parent}/my.cnf"],
    )


def test_the_method_that_is_asked_for_takes_the_place_of_the_other(native):
    patch = wanted(native)
    native.write_text(patch.after)
    over = wanted(native, method="malloc_lib")
    assert [change.kind for change in over.changes] == ["mysqld_safe", "option_file"]
    assert over.after == patch.before
    native.write_text(over.after)
    (native.parent / "my.cnf").write_text(over.changes[1].after)
    assert not wanted(native, method="malloc_lib").changed
    back = wanted(native)
    assert [(change.kind, change.after) for change in back.changes] == [
        ("mysqld_safe", patch.after),
        ("option_file", None),
    ]
    assert [change.kind for change in wanted(native, None).changes] == ["option_file"]


def test_a_library_that_the_script_would_not_take_is_refused(script):
    script.write_text(fixture_text("malloc-lib-four.sh"))
    with pytest.raises(safe.ScriptError, match="only from /usr/lib, ") as refused:
        wanted(script, "/opt/lib/libtcmalloc.so.4", method="malloc_lib")
    assert refused.value.reason == "whitelist"


def test_variables_cannot_travel_by_malloc_lib(native):
    for method in ("malloc_lib", "auto"):
        if method == "auto":
            odd(native)
        with pytest.raises(safe.ScriptError, match="carries no variables"):
            wanted(native, environment={"MALLOC_CONF": "narenas:4"}, method=method)


def test_auto_patches_a_script_that_is_understood(native):
    done = wanted(native, method="auto")
    assert (done.method, [change.kind for change in done.changes]) == ("patch", ["mysqld_safe"])
    assert "is understood" in done.method_reason


def test_auto_takes_malloc_lib_where_the_script_is_not_understood_and_would_take_the_library(native):
    odd(native)
    with pytest.raises(safe.ScriptError):
        wanted(native)
    done = wanted(native, method="auto")
    assert (done.method, [change.kind for change in done.changes]) == ("malloc_lib", ["option_file"])
    assert "was not found" in done.method_reason


def test_auto_names_both_reasons_where_neither_can_be(script):
    script.write_text(fixture_text("malloc-lib-four.sh"))
    odd(script)
    with pytest.raises(safe.ScriptError, match=r"by a patch: .* by malloc_lib: .*only from") as refused:
        wanted(script, "/opt/lib/libtcmalloc.so.4", method="auto")
    assert refused.value.reason == "not_understood"


def test_auto_takes_malloc_lib_where_the_script_cannot_be_written(native, monkeypatch):
    patch = wanted(native)
    monkeypatch.setattr(safe_methods, "read_only", lambda _directory: True)
    with pytest.raises(safe.ScriptError, match="read-only"):
        wanted(native)
    done = wanted(native, method="auto")
    assert (done.method, "read-only" in done.method_reason) == ("malloc_lib", True)
    native.write_text(patch.after)
    assert not wanted(native, method="auto").changed


def test_a_directory_that_is_read_only_is_known():
    assert safe_methods.read_only("/proc") == bool(os.statvfs("/proc").f_flag & os.ST_RDONLY)
    assert not safe_methods.read_only("/tmp")


def test_a_hand_made_preload_in_a_script_that_is_not_understood_is_named(native):
    odd(native)
    native.write_text(native.read_text().replace("args=\n", f"export LD_PRELOAD={JEMALLOC}\nargs=\n", 1))
    with pytest.raises(safe.ScriptError, match="preloads by hand") as refused:
        wanted(native, method="malloc_lib")
    assert refused.value.reason == "hand_edit"


@pytest.mark.parametrize("method", ["patch", "malloc_lib", "auto"])
def test_a_malloc_lib_of_somebody_else_is_kept_if_it_is_the_wanted_one_and_refused_if_not(native, method):
    file = with_malloc_lib(native, TCMALLOC)
    done = wanted(native, method=method)
    assert (done.changed, done.adopted, done.method) == (False, True, "malloc_lib")
    assert str(file) in done.method_reason
    with pytest.raises(safe.ScriptError, match=str(file)) as refused:
        wanted(native, JEMALLOC, method=method)
    assert refused.value.reason == "second_allocator"
    assert not wanted(native, None).changed


def test_a_hand_made_preload_in_the_script_is_kept_by_both_methods(native):
    native.write_text(native.read_text().replace("args=\n", f"export LD_PRELOAD={TCMALLOC}\nargs=\n", 1))
    done = wanted(native, method="malloc_lib")
    assert (done.changed, done.adopted) == (False, True)
    other = wanted(native, JEMALLOC, method="malloc_lib")
    assert [change.kind for change in other.changes] == ["mysqld_safe", "option_file"]
    assert "LD_PRELOAD=/" not in other.after


def test_the_option_file_of_the_running_script_is_the_one(native):
    file = native.parent / "own.cnf"
    file.write_text("[mysqld]\npassword=hunter2\n")
    process(native, 1, 0, "/sbin/init")
    process(native, 20, 1, "/bin/sh", str(native), f"--defaults-file={file}")
    process(native, 30, 20, "/usr/sbin/mariadbd")
    done = wanted(native, method="malloc_lib")
    assert [change.path for change in done.changes] == [str(file)]
    assert (done.restart_required, "hunter2" in str(done.diff)) == (True, False)
    assert "hunter2" in done.changes[0].after


def test_a_server_that_has_the_library_by_malloc_lib_needs_no_restart_until_it_goes(native):
    server(native, preload=TCMALLOC)
    (native.parent / "my.cnf").write_text(malloc_lib.with_block("", TCMALLOC))
    assert not wanted(native, method="malloc_lib").restart_required
    assert wanted(native, None).restart_required


def test_what_else_is_in_a_file_of_our_name_stays(native):
    file = native.parent / "my.cnf"
    file.write_text(malloc_lib.with_block("[client]\nport=1\n", TCMALLOC))
    assert [change.after for change in wanted(native, None).changes] == ["[client]\nport=1\n"]
