"""The module refuses what must not be tried, and never claims a change."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.modules import preload_probe as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from unit_host import libc_path


@pytest.fixture
def run(capsys):
    def call(**params):
        arguments = {"exe": sys.executable, "library": libc_path(), **params}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return call


@pytest.mark.parametrize("check", [False, True])
def test_a_library_that_does_not_exist_is_told_without_a_try(run, check):
    result = run(library="/usr/lib/libfleet_none.so.4", _ansible_check_mode=check)
    assert (result["changed"], result["level"], result["reason"]) == (False, "intended", "not_found")
    assert "/usr/lib/libfleet_none.so.4" in result["message"]


def test_a_library_that_others_could_replace_is_not_tried(run, tmp_path):
    library = tmp_path / "libx.so"
    library.write_bytes(Path(libc_path()).read_bytes())
    library.chmod(0o666)
    assert run(library=str(library))["reason"] == "unsafe_path"
    assert run(library="/usr/lib/a b.so")["reason"] == "unsafe_path"


def test_a_program_that_does_not_exist_is_an_error(run):
    failed = run(exe="/usr/sbin/no-such-daemon")
    assert (failed["failed"], failed["reason"]) == (True, "not_testable")
    assert "/usr/sbin/no-such-daemon" in failed["msg"]


def test_a_program_that_does_not_know_the_mode_is_not_testable(run):
    result = run(timeout=10)
    assert (result["changed"], result["reason"]) == (False, "not_testable")
