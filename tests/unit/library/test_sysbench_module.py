"""The module around the steps: whose lease holds, and how long."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import lease
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import SysbenchError
from ansible_collections.fleet.mysqltune.plugins.modules import sysbench as module


def params(root, **changes):
    plain = {name: option.get("default") for name, option in module.ARGUMENTS.items()}
    return {**plain, "command": "prepare", "run_id": "r1", "root": str(root), "client": "m", **changes}


@pytest.mark.parametrize("fails", [False, True])
def test_the_lease_outlasts_the_filling_of_the_tables_and_is_short_again_afterwards(
    tmp_path, monkeypatch, fails
):
    root, seen = tmp_path / "state", []

    def prepare(*_, **__):
        seen.append(lease.current(str(root)))
        if fails:
            raise SysbenchError("no room")
        return {}

    monkeypatch.setattr(module, "find_binary", lambda *_: ("/usr/bin/sysbench", "1.0.20"))
    monkeypatch.setattr(module.steps, "prepare", prepare)
    if fails:
        with pytest.raises(SysbenchError):
            module.work(params(root))
    else:
        assert module.work(params(root))["changed"]
    assert seen[0].ttl > module.steps.PREPARE_TIMEOUT
    assert lease.current(str(root)).ttl == lease.TTL


def test_without_a_run_nothing_is_leased(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_binary", lambda *_: ("/usr/bin/sysbench", "1.0.20"))
    monkeypatch.setattr(module.steps, "prepare", lambda *_, **__: {})
    module.work(params(tmp_path, run_id=None))
    assert lease.current(str(tmp_path)) is None
