# SPDX-License-Identifier: GPL-3.0-or-later
"""Every launcher and generation that the lab has: observed, tuned, healed after an upgrade, and left as it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from live import BYTES, ROOT, SAFE, Host, Lab, servers_of_the_lab

ALLOCATOR = "tcmalloc_minimal"
LIBRARY = "libtcmalloc_minimal.so"
SAFE_SCRIPT = "/usr/bin/mariadbd-safe"
LAUNCHERS = {
    "deb11": [("mariadb.service", "systemd", None)],
    "deb12": [("mariadb.service", "systemd", None)],
    "deb13": [("mariadb.service", "systemd", None)],
    "safe12": [("/usr/local/mysql/data", "mysqld_safe", SAFE)],
    "sysv12": [("/usr/local/mysql/data", "sysv", None)],
    "two12": [("mariadb@a.service", "systemd", None), ("mariadb@b.service", "systemd", None)],
    "multi12": [("/srv/mysql1", "mysqld_safe", SAFE_SCRIPT), ("/srv/mysql2", "mysqld_safe", SAFE_SCRIPT)],
    "mysql9": [("mysql.service", "systemd", None)],
    "mysql9safe": [("/var/lib/mysql", "mysqld_safe", "/usr/bin/mysqld_safe")],
}
"""The running servers of each kind of host: name, launcher, script."""

INSTALL_AGAIN = """
export DEBIAN_FRONTEND=noninteractive; apt-get -qq update </dev/null
apt-get -qq install -y --reinstall $(dpkg-query -S {file} | cut -d: -f1) </dev/null 2>&1 || exit 1
"""
UPGRADE = {
    "safe12": f"sed -i '/# BEGIN fleet.mysqltune/,/# END fleet.mysqltune/d' {SAFE}; systemctl restart mysql",
    "sysv12": "systemctl restart mysql",
    "multi12": f"systemctl stop mysqld_multi; {INSTALL_AGAIN.format(file=SAFE_SCRIPT)} systemctl start mysqld_multi",
    "two12": INSTALL_AGAIN.format(file="/usr/sbin/mariadbd") + "systemctl restart mariadb@a mariadb@b",
}
"""What an upgrade does, with the same version: new files, and a restart."""

QUICK = ("multi12",)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for the hosts of the lab that it is for."""
    linked = "linked_host" in metafunc.fixturenames
    if not linked and "tunable_host" not in metafunc.fixturenames:
        return
    names = [
        name for name in servers_of_the_lab() if name in LAUNCHERS and name.startswith("mysql9") is linked
    ]
    marked = [pytest.param(name, marks=[pytest.mark.quick] if name in QUICK else []) for name in names]
    metafunc.parametrize("linked_host" if linked else "tunable_host", marked, indirect=True)


@pytest.fixture
def tunable_host(lab: Lab, request: pytest.FixtureRequest) -> Host:
    host = lab.hosts[request.param]
    host.virgin()
    return host


@pytest.fixture
def linked_host(lab: Lab, request: pytest.FixtureRequest) -> Host:
    host = lab.hosts[request.param]
    host.virgin()
    return host


def observed(lab: Lab, host: Host) -> list[dict[str, object]]:
    """Return the running instances of a host as mysqld_info shows them."""
    command = ["ansible", "-i", lab.inventory, host.name, "-m", "fleet.mysqltune.mysqld_info", "-t"]
    folder = lab.reports / "observed"
    subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, check=True)
    found = json.loads((folder / host.name).read_text())["mysqld"]["instances"]
    return [instance for instance in found if instance["pid"]]


def launchers(instances: list[dict[str, object]]) -> list[tuple[object, object, object]]:
    return [(one["name"], one["launcher"]["kind"], one["launcher"]["script"]) for one in instances]


def proved(lab: Lab, host: Host) -> bool:
    """Tell whether every server of the host has the library bound."""
    return all(
        (one["allocator"]["name"], one["allocator"]["level"]) == (ALLOCATOR, "effective")
        for one in observed(lab, host)
    )


def test_it_is_tuned_healed_after_an_upgrade_and_left_as_it_was(lab: Lab, tunable_host: Host) -> None:
    host, name = tunable_host, tunable_host.name
    assert launchers(observed(lab, host)) == LAUNCHERS[name]
    before, pids = host.tree(BYTES), host.pids()

    predicted = lab.tune(name, "--check", "--diff", allocator_name=ALLOCATOR)
    assert predicted.rc == 0 and "would change" in predicted.said, predicted.out
    assert (host.tree(BYTES), host.pids()) == (before, pids)

    done = lab.tune(name, allocator_name=ALLOCATOR)
    assert done.rc == 0 and proved(lab, host), done.out
    assert not host.pids() & pids and len(host.pids()) == len(pids)
    again = lab.tune(name, allocator_name=ALLOCATOR)
    assert again.rc == 0 and again.counted(name, "changed") == 0, again.out

    upgrade = UPGRADE.get(name, INSTALL_AGAIN.format(file="/usr/sbin/mariadbd"))
    host.sh(upgrade, timeout=300)
    host.sh("timeout 60 sh -c 'until pgrep -x \"mariadbd|mysqld\"; do sleep 0.1; done'")
    verified = lab.play("verify.yml", name, allocator_name=ALLOCATOR)
    reverted = LAUNCHERS[name][0][1] == "mysqld_safe"
    assert (verified.rc != 0) is reverted, verified.out
    assert ("reverted script" in verified.said) is reverted, verified.out
    healed = lab.tune(name, allocator_name=ALLOCATOR)
    assert healed.rc == 0 and proved(lab, host), healed.out
    assert (healed.counted(name, "changed") > 0) is reverted, healed.out

    gone = lab.tune(name, allocator_name="system")
    assert gone.rc == 0, gone.out
    assert host.tree(BYTES) == before
    assert all(
        (one["allocator"]["name"], one["allocator"]["level"], one["allocator"]["environ"])
        == ("system", "effective", "")
        for one in observed(lab, host)
    )


def test_variables_travel_with_the_allocator_and_glibc_is_one_of_them(lab: Lab, tunable_host: Host) -> None:
    host, name = tunable_host, tunable_host.name
    before = host.tree(BYTES)
    first = lab.tune(name, allocator_name=ALLOCATOR, allocator_environment={"TCMALLOC_SAMPLE_PARAMETER": 0})
    assert first.rc == 0 and proved(lab, host), first.out
    assert all(
        one["allocator"]["variables"] == {"TCMALLOC_SAMPLE_PARAMETER": "0"} for one in observed(lab, host)
    )
    capped = lab.tune(name, allocator_name="glibc")
    assert capped.rc == 0, capped.out
    seen = [one["allocator"] for one in observed(lab, host)]
    assert all((one["name"], one["variables"]) == ("system", {"MALLOC_ARENA_MAX": "2"}) for one in seen)
    again = lab.tune(name, allocator_name="glibc")
    assert again.rc == 0 and again.counted(name, "changed") == 0, again.out
    undone = lab.play("rollback.yml", name)
    assert undone.rc == 0 and proved(lab, host), undone.out
    assert lab.tune(name, allocator_name="system").rc == 0
    assert host.tree(BYTES) == before


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc_minimal", "glibc"])
def test_nothing_is_stacked_on_an_allocator_that_is_linked_in(
    lab: Lab, linked_host: Host, allocator: str
) -> None:
    host, name = linked_host, linked_host.name
    assert launchers(observed(lab, host)) == LAUNCHERS[name]
    before, pids = host.tree(BYTES), host.pids()
    refused = lab.tune(name, allocator_name=allocator)
    assert refused.rc != 0 and "is linked with libtcmalloc.so.4" in refused.said, refused.out
    assert (host.tree(BYTES), host.pids()) == (before, pids)


def test_an_allocator_that_is_linked_in_is_accepted_as_such(lab: Lab, linked_host: Host) -> None:
    host, name = linked_host, linked_host.name
    pids = host.pids()
    for accepted in ("linked", "tcmalloc"):
        done = lab.tune(name, allocator_name=accepted)
        assert done.rc == 0 and done.counted(name, "changed") == 0, done.out
        assert lab.play("verify.yml", name, allocator_name=accepted).rc == 0
    assert host.pids() == pids
    one = observed(lab, host)[0]
    assert (one["flavour"], one["allocator"]["linked"]) == ("mysql", "libtcmalloc.so.4")


UNIT = f"""[Service]
ExecStart={SAFE} --defaults-file=/etc/my.cnf
KillMode=mixed
"""


@pytest.fixture
def unit_by_hand(lab: Lab) -> Iterator[Host]:
    """The host whose mysqld_safe a unit runs that somebody has written."""
    host = lab.hosts["safe12"]
    host.virgin()
    host.put("/etc/systemd/system/db.service", UNIT, mode="0644")
    ready = "timeout 60 sh -c 'until mariadb -e \"DO 1\" 2>/dev/null; do sleep 0.1; done'"
    host.sh(f"systemctl daemon-reload; systemctl stop mysql; systemctl start db; {ready}")
    yield host
    host.sh("systemctl stop db; rm -rf /etc/systemd/system/db.service*; systemctl daemon-reload")
    host.virgin(restart=True)


def test_mysqld_safe_in_a_unit_made_by_hand_is_patched_and_its_unit_restarted(
    lab: Lab, unit_by_hand: Host
) -> None:
    (one,) = observed(lab, unit_by_hand)
    assert (one["launcher"]["kind"], one["launcher"]["unit"]) == ("mysqld_safe", "db.service")
    before = unit_by_hand.tree(BYTES)
    done = lab.tune("safe12", allocator_name=ALLOCATOR)
    assert done.rc == 0 and proved(lab, unit_by_hand), done.out
    assert unit_by_hand.sh("systemctl show -P NRestarts db; systemctl is-active db") == "0\nactive"
    assert lab.tune("safe12", allocator_name=ALLOCATOR).counted("safe12", "changed") == 0
    assert lab.tune("safe12", allocator_name="system").rc == 0
    assert unit_by_hand.tree(BYTES) == before


GOVERNED = """
mkdir -p /etc/systemd/system/mariadb.service.d
printf '%s\\n' '# preloads' 'export=ignored' 'LD_PRELOAD="LIBS/libm.so.6" ' "OTHER='a b'" >/etc/governor.env
printf '[Service]\\nEnvironment="LD_PRELOAD=LIBS/libdl.so.2"\\nEnvironmentFile=-/etc/governor.env\\n' \\
  >/etc/systemd/system/mariadb.service.d/governor.conf
systemctl daemon-reload
""".replace("LIBS", "/usr/lib/x86_64-linux-gnu")


@pytest.fixture
def governed(lab: Lab) -> Iterator[Host]:
    """The host with a resource governor that preloads a library into the unit, by two files that contradict each other."""
    host = lab.hosts["deb12"]
    host.virgin()
    host.sh(GOVERNED)
    yield host
    host.sh("rm -f /etc/governor.env /etc/systemd/system/mariadb.service.d/governor.conf")
    host.virgin(restart=True)


def test_what_others_preload_into_a_unit_is_kept(lab: Lab, governed: Host) -> None:
    before = governed.tree(BYTES)
    done = lab.tune("deb12", allocator_name=ALLOCATOR)
    assert done.rc == 0 and proved(lab, governed), done.out
    (one,) = observed(lab, governed)
    assert one["allocator"]["environ"].split(":")[0] == "/usr/lib/x86_64-linux-gnu/libm.so.6"
    assert governed.effective("libm.so.6") and not governed.effective("libdl.so.2")
    assert lab.tune("deb12", allocator_name=ALLOCATOR).counted("deb12", "changed") == 0
    assert lab.tune("deb12", allocator_name="system").rc == 0
    assert governed.tree(BYTES) == before
