from __future__ import annotations

import json
import os
import time

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.modules import mysqld_info

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def run(capsys, **arguments):
    with patch_module_args(arguments), pytest.raises(SystemExit):
        mysqld_info.main()
    return json.loads(capsys.readouterr().out)


@as_root
@pytest.mark.parametrize("check", [True, False])
def test_the_host_of_this_test_is_observed_and_nothing_is_changed(capsys, check):
    before = time.process_time()
    result = run(capsys, _ansible_check_mode=check)
    assert result["changed"] is False
    assert set(result["mysqld"]) == {
        "host",
        "instances",
        "libraries",
        "managed_files",
        "lease",
        "unfinished",
        "last_run",
    }
    assert time.process_time() - before < 1


@as_root
def test_a_wrong_credentials_file_fails_in_one_sentence(capsys):
    result = run(capsys, defaults_file="/nope.cnf")
    assert result["failed"] is True
    assert "defaults_file /nope.cnf does not exist" in result["msg"]
    assert "exception" not in result


def test_without_root_the_module_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "become: true" in run(capsys)["msg"]
