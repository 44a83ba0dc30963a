"""The module from its arguments to the two files, twice each time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fleet.mysqltune.plugins.modules import systemd_preload as module

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from unit_host import LATER, UnitHost, libc_path

LIBRARY = libc_path()
ENV = "/etc/fleet-mysqltune/mariadb.service.env"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UnitHost:
    made = UnitHost(tmp_path / "root")
    monkeypatch.setattr(module, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(module, "ROOT", str(made.root))
    monkeypatch.setattr(module, "PROC", made.proc)
    monkeypatch.setattr(module, "run", made.run)
    return made


@pytest.fixture
def run(host: UnitHost, capsys: pytest.CaptureFixture[str]):
    def call(**params):
        with (
            patch_module_args({"unit": host.unit, "library": [LIBRARY], **params}),
            pytest.raises(SystemExit),
        ):
            module.main()
        return json.loads(capsys.readouterr().out)

    return call


def test_present_changes_once_and_absent_once(run, host):
    host.start()
    first = run()
    assert (first["changed"], first["restart_required"], first["preload"], first["overridden_by"]) == (
        True,
        True,
        [LIBRARY],
        [],
    )
    assert (first["unit"], ENV in first["files"]) == ("mariadb.service", True)
    assert not run()["changed"]
    assert run(state="absent", library=[])["changed"]
    assert not host.has("/etc/fleet-mysqltune")
    gone = run(state="absent", library=[])
    assert (gone["changed"], gone["restart_required"]) == (False, False)


def test_check_mode_shows_the_same_files_and_touches_nothing(run, host):
    would = run(_ansible_check_mode=True, _ansible_diff=True)
    assert would["changed"]
    assert not host.has(ENV)
    assert ["systemctl", "daemon-reload"] not in host.calls
    done = run(_ansible_diff=True)
    assert done["diff"] == would["diff"]
    assert host.text(ENV) == done["diff"][0]["after"]


def test_a_library_that_is_only_predicted_is_accepted_in_check_mode_alone(run, host):
    missing = "/usr/lib/libfleet_none.so.4"
    assert run(library=[missing], predicted=True, _ansible_check_mode=True)["changed"]
    assert run(library=[missing], _ansible_check_mode=True)["reason"] == "not_found"
    assert run(library=[missing], predicted=True)["reason"] == "not_found"
    assert not host.has(ENV)


def test_what_overrides_our_entry_makes_the_module_fail_before_it_writes(run, host):
    host.put(LATER, "[Service]\nEnvironmentFile=/etc/late.env\n")
    host.put("/etc/late.env", "LD_PRELOAD=/late.so\n")
    failed = run()
    assert (failed["reason"], failed["overridden_by"]) == ("overridden", ["/etc/late.env"])
    assert "/etc/late.env" in failed["msg"]
    assert not host.has(ENV)


def test_a_unit_that_does_not_exist_is_one_clear_error(run, host):
    host.known = False
    failed = run()
    assert failed["reason"] == "no_unit"
    assert "mariadb.service" in failed["msg"]


def test_a_call_that_asks_for_nothing_is_refused(run):
    assert run(library=[])["reason"] == "nothing_asked"


def test_a_failed_reload_without_a_run_of_its_own_leaves_nothing_behind(run, host, monkeypatch):
    def failing(argv, **options):
        done = host.run(argv, **options)
        return done._replace(rc=1, err="no bus") if "daemon-reload" in argv else done

    monkeypatch.setattr(module, "run", failing)
    failed = run()
    assert (failed["reason"], "no bus" in failed["msg"]) == ("reload", True)
    assert not host.has(ENV)
