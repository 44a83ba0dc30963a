# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.modules import mysqld_activate, tuning_journal

RUNNING = {
    "name": "mariadb.service",
    "pid": 7,
    "exe": "/usr/sbin/mariadbd",
    "launcher": {"kind": "sysv", "unit": None, "init_script": "/etc/init.d/mysql"},
    "library": None,
}
STOPPED = {"name": "mysql@b.service", "pid": None, "launcher": {"kind": "stopped", "unit": "mysql@b.service"}}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(mysqld_activate, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(tuning_journal, "STATE_ROOT", str(tmp_path / "state"))
    return tmp_path / "state"


def run(module: Any, capsys: pytest.CaptureFixture[str], **params: Any) -> Dict[str, Any]:
    with patch_module_args(params), pytest.raises(SystemExit):
        module.main()
    result: Dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_check_mode_says_which_servers_would_restart(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    result = run(
        mysqld_activate, capsys, run_id="run-1", instances=[RUNNING, STOPPED], _ansible_check_mode=True
    )
    assert result["changed"] is True
    assert result["message"] == "would restart mariadb.service"
    assert [one["state"] for one in result["instances"]] == ["would_restart", "stopped"]
    assert not root.exists()


def test_with_only_stopped_servers_nothing_would_change(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(mysqld_activate, capsys, run_id="run-1", instances=[STOPPED], _ansible_check_mode=True)
    assert (result["changed"], result["message"]) == (False, "no server runs, none would be started")


def test_a_bare_server_fails_with_instructions(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    bare = dict(RUNNING, launcher={"kind": "bare"})
    result = run(mysqld_activate, capsys, run_id="run-1", instances=[bare])
    assert result["failed"] is True and "Run it from a systemd unit or from an init script" in result["msg"]
    assert not root.exists()


def test_a_run_id_that_is_no_name_fails(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(mysqld_activate, capsys, run_id="../x", instances=[RUNNING])
    assert result["failed"] is True and "is not a name" in result["msg"]


@pytest.mark.parametrize("module", [mysqld_activate, tuning_journal])
def test_the_documentation_is_the_argument_spec(module: Any) -> None:
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert set(options) == set(module.ARGUMENTS)
    for name, spec in module.ARGUMENTS.items():
        for key in ("type", "default", "choices", "elements"):
            assert options[name].get(key) == spec.get(key), (name, key)
        assert options[name].get("required", False) == spec.get("required", False), name
