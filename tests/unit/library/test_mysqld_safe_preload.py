"""The module from its arguments to the file, twice each time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for, restore
from ansible_collections.fleet.mysqltune.plugins.modules import mysqld_safe_preload as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from safe_stage import fixture_text
from unit_host import libc_path

LIBRARY = libc_path()


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "STATE_ROOT", str(tmp_path / "state"))
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
