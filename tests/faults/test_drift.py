# SPDX-License-Identifier: GPL-3.0-or-later
"""What verify.yml finds when somebody or something changed a tuned host, and what tune.yml then makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import SAFE, Done, Host, Lab, Survivors
from spoiled import module

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
DROP_INS = "/etc/systemd/system/mariadb.service.d"
FOREIGN = f"{DROP_INS}/zzz-colleague.conf"


class Watched:
    """A tuned host that is written to, and the files in which verify.yml leaves its result."""

    def __init__(self, lab: Lab, host: Host, folder: Path) -> None:
        self.lab, self.host = lab, host
        self.json, self.textfile = folder / "drift.json", folder / "fleet.prom"
        self.rows = Survivors(host)

    def tune(self) -> Done:
        return self.lab.tune(self.host.name, allocator_name="tcmalloc")

    def verify(self) -> tuple[Done, dict[str, Any]]:
        files = {"report_drift_json": str(self.json), "report_prometheus_file": str(self.textfile)}
        done = self.lab.play("verify.yml", self.host.name, allocator_name="tcmalloc", **files)
        return done, json.loads(self.json.read_text())["hosts"][self.host.name]

    def assert_found(self, code: str, name: str, *words: str) -> None:
        """verify.yml fails and names the reason in its table, in JSON and in the metrics."""
        done, found = self.verify()
        codes = [reason["code"] for instance in found["instances"] for reason in instance["reasons"]]
        assert done.rc == 2 and found["state"] == "drift" and code in codes, done.out
        assert name in done.said and not [word for word in words if word not in done.said], done.out
        assert f'reason="{code}"' in self.textfile.read_text()

    def assert_healed(self) -> None:
        """tune.yml puts it right, and after that nothing is left to change."""
        healed = self.tune()
        assert healed.rc == 0, healed.out
        done, found = self.verify()
        assert done.rc == 0 and found["state"] == "effective", done.out
        assert "fleet_mysqltune_drift{" not in self.textfile.read_text()
        assert self.tune().counted(self.host.name, "changed") == 0
        assert self.rows.lost() == ""


@pytest.fixture
def deb(lab: Lab, deb12: Host, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(lab, deb12, tmp_path)
    assert watched.tune().rc == 0
    yield watched
    deb12.sh(f"rm -f {FOREIGN} /etc/colleague.env; systemctl daemon-reload")


@pytest.fixture
def safe(lab: Lab, safe12: Host, tmp_path: Path) -> Watched:
    safe12.sh(f"cp -p {SAFE} /root/packaged")
    watched = Watched(lab, safe12, tmp_path)
    assert watched.tune().rc == 0
    return watched


@pytest.mark.quick
@pytest.mark.fault("package upgraded: mysqld_safe replaced by the packaged one")
def test_a_reverted_script_is_found_and_patched_again(safe: Watched) -> None:
    """verify.yml: reverted script; tune.yml patches the new script with one restart."""
    safe.host.sh(f"cp -p /root/packaged {SAFE}")
    safe.assert_found("reverted_script", "reverted script", f"{SAFE} is without our block")
    safe.assert_healed()


@pytest.mark.quick
@pytest.mark.fault("library replaced under the process")
def test_a_library_deleted_under_the_process_is_found_and_loaded_anew(deb: Watched) -> None:
    """verify.yml: library deleted under the process; tune.yml restarts the server on the new file."""
    deb.host.sh(f"real=$(readlink -f {TCMALLOC}) && cp -p $real $real.new && mv $real.new $real")
    deb.assert_found("deleted", "library deleted under the process")
    deb.assert_healed()


@pytest.mark.quick
@pytest.mark.fault("our drop-in removed by hand")
def test_a_removed_drop_in_is_found_and_put_there_again(deb: Watched) -> None:
    """verify.yml: unit changed, with the file; tune.yml delivers again."""
    deb.host.sh(f"rm {DROP_INS}/zz-fleet-mysqltune.conf; systemctl daemon-reload")
    deb.assert_found("unit_changed", "unit changed", f"{DROP_INS}/zz-fleet-mysqltune.conf is gone")
    deb.assert_healed()


@pytest.mark.fault("our environment file edited by hand")
def test_an_edited_environment_file_is_found_and_written_again(deb: Watched) -> None:
    """verify.yml: unit changed, with the file; tune.yml writes it again."""
    deb.host.sh("echo LD_PRELOAD= >/etc/fleet-mysqltune/mariadb.service.env")
    deb.assert_found("unit_changed", "unit changed", "/etc/fleet-mysqltune/mariadb.service.env is changed")
    deb.assert_healed()


@pytest.mark.quick
@pytest.mark.fault("foreign EnvironmentFile= that overrides ours")
def test_a_foreign_environment_file_that_beats_ours_is_named(deb: Watched) -> None:
    """verify.yml: overridden, with the foreign file; after it is gone all is as asked, without a restart."""
    pid = deb.host.pid()
    deb.host.put("/etc/colleague.env", "LD_PRELOAD=", "0644")
    deb.host.put(FOREIGN, "[Service]\nEnvironmentFile=/etc/colleague.env", "0644")
    deb.host.sh("systemctl daemon-reload")
    deb.assert_found("overridden", "overridden", "/etc/colleague.env")
    deb.host.sh(f"rm {FOREIGN}; systemctl daemon-reload")
    assert deb.verify()[0].rc == 0
    assert deb.host.pid() == pid
    assert deb.rows.lost() == ""


@pytest.mark.quick
@pytest.mark.fault("second allocator preloaded by a colleague")
def test_a_second_allocator_is_found_and_refused(deb: Watched) -> None:
    """verify.yml: second allocator; tune.yml refuses and names it, and does not restart the server."""
    deb.host.sh("apt-get -qq install -y libjemalloc2 </dev/null >/dev/null 2>&1")
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    deb.host.put("/etc/colleague.env", f"LD_PRELOAD={TCMALLOC}:{jemalloc}", "0644")
    deb.host.put(FOREIGN, "[Service]\nEnvironmentFile=/etc/colleague.env", "0644")
    deb.host.sh("systemctl daemon-reload; systemctl restart mariadb")
    pid = deb.host.pid()
    deb.assert_found("second_allocator", "second allocator")
    refused = deb.tune()
    assert refused.rc != 0 and jemalloc in refused.said, refused.out
    assert deb.host.pid() == pid
    deb.host.sh(f"rm {FOREIGN}; systemctl daemon-reload")
    deb.assert_healed()


@pytest.mark.quick
@pytest.mark.fault("delivered, and never restarted")
def test_a_stale_process_is_found_and_restarted(lab: Lab, deb12: Host, tmp_path: Path) -> None:
    """verify.yml: stale process, restart pending; tune.yml restarts it once."""
    watched = Watched(lab, deb12, tmp_path)
    deb12.sh("apt-get -qq install -y libgoogle-perftools4 </dev/null >/dev/null 2>&1")
    module(lab, deb12, "systemd_preload", unit="mariadb.service", library=[TCMALLOC])
    watched.assert_found("stale_process", "stale process: restart pending")
    watched.assert_healed()


@pytest.mark.quick
@pytest.mark.fault("host unreachable")
def test_an_unreachable_host_is_a_line_of_the_table(deb: Watched) -> None:
    """verify.yml: unknown, in table, JSON and metrics; the exit status is that of a failure."""
    files = {"report_drift_json": str(deb.json), "report_prometheus_file": str(deb.textfile)}
    done = deb.lab.play("verify.yml", "deb12", ansible_port=1, allocator_name="tcmalloc", **files)
    assert done.rc != 0 and "1 host: 1 unknown." in done.said, done.out
    assert json.loads(deb.json.read_text())["hosts"]["deb12"]["state"] == "unknown"
    assert 'fleet_mysqltune_host_unknown{host="deb12"} 1' in deb.textfile.read_text()
