"""The module from its arguments to a library and back to an answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.module_utils import lease
from ansible_collections.fleet.mysqltune.plugins.modules import allocator_build as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from archives import jemalloc, write
from programs import ALLOCATOR


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    def call(**params):
        given = {
            "source": str(tmp_path / "x.tar.gz"),
            "allocator": "jemalloc",
            "prefix": str(tmp_path / "prefix"),
        }
        with patch_module_args({**given, **params}), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    write(tmp_path / "x.tar.gz", jemalloc(ALLOCATOR))
    tmp_path.chmod(0o755)
    shop = module.Workshop
    monkeypatch.setattr(
        module,
        "Workshop",
        lambda prefix, **more: shop(prefix, root=str(tmp_path), root_uid=tmp_path.stat().st_uid, **more),
    )
    return call


def test_check_mode_predicts_then_it_is_built_then_nothing_changes(run, tmp_path):
    path = str(tmp_path / "prefix/jemalloc-5.3.0/lib/libjemalloc.so.2")
    would = run(_ansible_check_mode=True)
    assert (would["changed"], would["library"], would["missing"]) == (True, path, [])
    assert not Path(path).exists()
    first = run()
    assert (first["changed"], first["library"], first["packed"]) == (True, path, None)
    assert Path(path).is_file()
    second = run()
    assert (second["changed"], second["library"]) == (False, path)


def test_what_cannot_be_built_fails_with_one_sentence(run):
    failed = run(allocator="tcmalloc")
    assert (failed["failed"], failed["reason"]) == (True, "not_built")
    assert failed["msg"].endswith("or give another archive.")
    assert "no SHA-256" not in failed["msg"]
    assert "is not there" in run(source="/gone.tar.gz")["msg"]


def test_the_lease_of_the_run_is_renewed_and_another_runs_lease_stops_the_build(run, tmp_path, monkeypatch):
    state = str(tmp_path / "state")
    monkeypatch.setattr(module, "STATE_ROOT", state)
    before = lease.take("mine", state).renewed
    assert run(run_id="mine")["changed"]
    assert lease.current(state).renewed > before
    refused = run(run_id="other", allocator="jemalloc", prefix=str(tmp_path / "second"))
    assert refused["failed"] and "run mine" in refused["msg"]
