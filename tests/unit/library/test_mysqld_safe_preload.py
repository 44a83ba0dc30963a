"""The module from its arguments to the file, twice each time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils import option_file
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for, restore
from ansible_collections.fleet.mysqltune.plugins.modules import mysqld_safe_preload as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from safe_scripts import fixture_text
from unit_host import libc_path

LIBRARY = libc_path()


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(option_file, "GLOBAL_FILES", (str(tmp_path / "my.cnf"),))
    path = tmp_path / "mariadbd-safe"
    path.write_text(fixture_text("family-c-mariadb.sh"))
    path.chmod(0o755)
    (tmp_path / "mysqld_safe").symlink_to("mariadbd-safe")
    return path


@pytest.fixture
def run(script: Path, capsys: pytest.CaptureFixture[str]):
    def call(**params):
        arguments = {"path": str(script.parent / "mysqld_safe"), "library": LIBRARY, **params}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return call


def test_present_changes_once_and_absent_gives_the_exact_bytes_back(run, script):
    before = script.read_bytes()
    first = run()
    assert (first["changed"], first["real_path"], first["preload"], first["family"]) == (
        True,
        str(script),
        [LIBRARY],
        "C",
    )
    assert script.stat().st_mode & 0o777 == 0o755
    assert (script.parent / "mysqld_safe").is_symlink()
    assert not run()["changed"]
    assert run(state="absent")["changed"]
    assert script.read_bytes() == before
    assert not run(state="absent")["changed"]


def test_check_mode_says_what_would_change_and_touches_nothing(run, script):
    before = script.read_bytes()
    would = run(_ansible_check_mode=True, _ansible_diff=True)
    assert would["changed"]
    assert script.read_bytes() == before
    assert not (script.parent / "state").exists()
    done = run(_ansible_diff=True)
    assert done["diff"] == would["diff"]
    assert script.read_text() == done["diff"]["after"]


def test_a_library_that_is_only_predicted_is_accepted_in_check_mode_alone(run):
    missing = "/usr/lib/libfleet_none.so.4"
    assert run(library=missing, predicted=True, _ansible_check_mode=True)["changed"]
    assert run(library=missing, _ansible_check_mode=True)["reason"] == "not_found"
    failed = run(library=missing, predicted=True)
    assert (failed["failed"], failed["reason"]) == (True, "not_found")
    assert missing in failed["msg"]


def test_a_library_that_others_could_replace_is_refused(run, tmp_path):
    (tmp_path / "libtcmalloc.so.4").write_bytes(Path(LIBRARY).read_bytes())
    (tmp_path / "libtcmalloc.so.4").chmod(0o666)
    assert run(library=str(tmp_path / "libtcmalloc.so.4"))["reason"] == "unsafe_path"
    assert run(library="/usr/lib/a b.so")["reason"] == "unsafe_path"


def test_a_script_that_is_not_understood_is_left_alone_and_both_names_are_told(run, script):
    script.write_text("#!/bin/sh\necho hello\n")
    failed = run()
    assert failed["reason"] == "not_understood"
    assert str(script) in failed["msg"]
    assert script.read_text() == "#!/bin/sh\necho hello\n"


def test_a_script_that_is_broken_already_does_not_take_our_block(run, script):
    script.write_text(script.read_text() + "if true\n")
    before = script.read_bytes()
    failed = run()
    assert (failed["reason"], "sh -n says" in failed["msg"]) == ("journal", True)
    assert script.read_bytes() == before
    assert list(script.parent.glob(".*tmp")) == []


def test_a_hand_made_preload_of_another_allocator_makes_room(run, script):
    edit = "export LD_PRELOAD=/usr/lib/libjemalloc.so.2\n"
    script.write_text(script.read_text().replace("MYSQLD=mysqld\n", f"{edit}MYSQLD=mysqld\n", 1))
    replaced = run()
    assert (replaced["changed"], replaced["adopted"], replaced["hand_edits"][0]["line"]) == (True, False, 4)
    assert run(state="absent")["changed"]
    assert "LD_PRELOAD=/" not in script.read_text()


def test_the_journal_brings_a_hand_made_preload_back(run, script):
    script.write_text(
        script.read_text().replace("MYSQLD=mysqld\n", "export LD_PRELOAD=/opt/x.so\nMYSQLD=mysqld\n", 1)
    )
    before = script.read_bytes()
    state = str(script.parent / "state")
    assert run(run_id="r1")["changed"]
    with journal_for("r1", state) as journal:
        journal.close("committed")
    assert restore("r1", state).ok
    assert script.read_bytes() == before


def test_another_run_that_holds_the_lease_is_named(run, script):
    with journal_for("other", str(script.parent / "state")):
        failed = run(run_id="mine")
    assert failed["reason"] == "journal"
    assert "other" in failed["msg"]


@pytest.fixture
def options(script: Path) -> Path:
    """The option file of a script that knows malloc-lib; its last line does not end."""
    script.write_text(fixture_text("malloc-lib-any.sh"))
    path = script.parent / "my.cnf"
    path.write_text("[client]\npassword = hunter2")
    path.chmod(0o640)
    return path


def test_malloc_lib_changes_once_and_absent_gives_the_exact_bytes_back(run, script, options):
    before = script.read_bytes(), options.read_bytes()
    first = run(method="malloc_lib", _ansible_diff=True)
    assert (first["changed"], first["method"], first["option_files"]) == (True, "malloc_lib", [str(options)])
    assert first["files"] == [str(options)]
    assert "hunter2" not in json.dumps(first)
    assert (script.read_bytes(), options.stat().st_mode & 0o777) == (before[0], 0o640)
    assert not run(method="malloc_lib")["changed"]
    assert run(state="absent")["changed"]
    assert (script.read_bytes(), options.read_bytes()) == before
    assert not run(state="absent")["changed"]


def test_malloc_lib_in_check_mode_touches_nothing(run, options):
    before = options.read_bytes()
    assert run(method="malloc_lib", _ansible_check_mode=True)["changed"]
    assert options.read_bytes() == before


def test_one_method_takes_the_others_place_in_one_run_that_can_be_undone(run, script, options):
    run(method="malloc_lib", run_id="r1")
    state = str(script.parent / "state")
    with journal_for("r1", state) as journal:
        journal.close("committed")
    left = script.read_bytes(), options.read_bytes()
    both = run(method="patch", run_id="r2")
    assert both["files"] == [str(script), str(options)] and both["option_files"] == []
    with journal_for("r2", state) as journal:
        journal.close("committed")
    assert restore("r2", state).ok
    assert (script.read_bytes(), options.read_bytes()) == left


def test_undo_takes_only_our_block_out_of_an_option_file_that_was_edited_since(run, script, options):
    before = options.read_text()
    run(method="malloc_lib", run_id="r1")
    state = str(script.parent / "state")
    with journal_for("r1", state) as journal:
        journal.close("committed")
    options.write_text("# the night shift was here\n" + options.read_text())
    assert restore("r1", state).ok
    assert options.read_text() == "# the night shift was here\n" + before


def test_a_file_of_our_own_appears_and_goes_again(run, script, options):
    directory = script.parent / "conf.d"
    directory.mkdir()
    options.write_text(f"!includedir {directory}\n")
    own = directory / "zz-fleet-mysqltune.cnf"
    assert run(method="malloc_lib")["files"] == [str(own)]
    assert own.read_text().splitlines()[1:3] == ["[mysqld_safe]", f"malloc-lib={LIBRARY}"]
    assert run(state="absent")["files"] == [str(own)]
    assert not own.exists()


def test_an_option_file_that_the_script_does_not_read_is_refused(run, options):
    failed = run(method="malloc_lib", option_file=str(options.parent / "other.cnf"))
    assert (failed["reason"], "does not read" in failed["msg"]) == ("launcher_mismatch", True)


def test_a_script_that_no_running_server_was_started_by_is_told(run, tmp_path, monkeypatch):
    proc = tmp_path / "proc"
    monkeypatch.setattr(module, "PROC", str(proc))
    (proc / "30").mkdir(parents=True)
    assert run()["launcher_mismatch"] is False
    (proc / "30/stat").write_text("30 (mariadbd) S 1 1 1 0")
    (proc / "30/cmdline").write_text("/usr/sbin/mariadbd\0")
    assert run()["launcher_mismatch"] is True
    assert run(state="absent")["launcher_mismatch"] is False
