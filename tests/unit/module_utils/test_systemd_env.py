"""What a unit's next start will have in LD_PRELOAD, and who says so."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import systemd_env as se
from unit_host import FRAGMENT, LATER, UnitHost

TCMALLOC = "/usr/lib/libtcmalloc_minimal.so.4"
D = "/etc/systemd/system/mariadb.service.d"


@pytest.fixture
def host(tmp_path):
    return UnitHost(tmp_path)


def read(host, unit="mariadb", **options):
    return se.read_unit(unit, host.run, str(host.root), **options)


def test_a_plain_unit_preloads_nothing(host):
    assert read(host).preload == []
    assert se.configured_preload("mariadb", host.run, str(host.root)) == {
        "paths": [],
        "managed": False,
        "overridden_by": [],
        "variables": {},
        "own_variables": {},
    }


def test_an_environment_file_beats_any_environment_line_wherever_it_stands(host):
    host.put(f"{D}/10-file.conf", "[Service]\nEnvironmentFile=/etc/sysconfig/mysql\n")
    host.put(f"{D}/90-line.conf", "[Service]\nEnvironment=LD_PRELOAD=/line.so\n")
    host.put("/etc/sysconfig/mysql", 'LD_PRELOAD="/file.so /second.so"\n')
    unit = read(host)
    assert unit.preload == ["/file.so", "/second.so"]
    assert unit.setter_of("LD_PRELOAD") == "/etc/sysconfig/mysql"


def test_the_last_of_several_files_counts_and_a_glob_is_read_in_order(host):
    host.put(FRAGMENT, "[Service]\nEnvironmentFile=-/etc/default/mysql.d/*.env\n")
    host.put("/etc/default/mysql.d/b.env", "LD_PRELOAD=/b.so\n")
    host.put("/etc/default/mysql.d/a.env", "LD_PRELOAD=/a.so\nOTHER=1\n")
    host.put("/etc/default/mysql.d/sub/c.env", "LD_PRELOAD=/c.so\n")
    unit = read(host)
    assert (unit.preload, unit.variables["OTHER"]) == (["/b.so"], "1")


def test_an_empty_assignment_forgets_what_came_before(host):
    host.put(FRAGMENT, "[Service]\nEnvironment=LD_PRELOAD=/a.so\nEnvironmentFile=/etc/e\n")
    host.put("/etc/e", "LD_PRELOAD=/e.so\n")
    host.put(f"{D}/a.conf", "[Service]\nEnvironmentFile=\nEnvironment=B=1\n")
    assert read(host).preload == ["/a.so"]


def test_unset_environment_takes_the_variable_away(host):
    host.put(FRAGMENT, "[Service]\nEnvironment=LD_PRELOAD=/a.so\nUnsetEnvironment=LD_PRELOAD X\n")
    assert read(host).preload == []
    assert read(host).setter_of("LD_PRELOAD") == FRAGMENT


def test_settings_of_other_sections_and_missing_files_do_not_count(host):
    host.put(FRAGMENT, "[Unit]\nEnvironment=LD_PRELOAD=/a.so\n[Service]\nEnvironmentFile=-/etc/none\n")
    assert read(host).preload == []


def test_a_drop_in_of_the_same_name_in_a_stronger_directory_counts(host):
    host.put("/lib/systemd/system/mariadb.service.d/a.conf", "[Service]\nEnvironment=LD_PRELOAD=/lib.so\n")
    host.put("/run/systemd/system/mariadb.service.d/a.conf", "[Service]\nEnvironment=LD_PRELOAD=/run.so\n")
    assert read(host).preload == ["/run.so"]
    host.put(f"{D}/a.conf", "")
    assert read(host).preload == []


def test_drop_ins_of_the_template_of_a_prefix_of_aliases_and_of_all_services_count(tmp_path):
    host = UnitHost(tmp_path, unit="my-db@a.service", names="my-db@a.service mysqld.service")
    for number, name in enumerate(
        ("my-db@.service", "my-.service", "mysqld.service", "service", "my-db@a.service")
    ):
        host.put(f"/etc/systemd/system/{name}.d/{number}.conf", f"[Service]\nEnvironment=V{number}=1\n")
    host.put("/etc/systemd/system/my-other.service.d/9.conf", "[Service]\nEnvironment=V9=1\n")
    assert sorted(read(host, "my-db@a").variables) == ["V0", "V1", "V2", "V3", "V4"]


def test_the_instance_name_is_filled_in(tmp_path):
    host = UnitHost(tmp_path, unit="mariadb@a.service")
    host.put(FRAGMENT, "[Service]\nEnvironmentFile=/etc/mysql/%i.env\nEnvironment=NAME=%p-%i\n")
    host.put("/etc/mysql/a.env", "LD_PRELOAD=/a.so\n")
    assert read(host, "mariadb@a").variables == {"NAME": "mariadb-a", "LD_PRELOAD": "/a.so"}


def managed(host, preload=TCMALLOC):
    host.put(se.drop_in_path("mariadb.service"), se.drop_in_text("mariadb.service"))
    host.put(se.environment_path("mariadb.service"), se.environment_text("mariadb.service", [preload], {}))


def test_our_own_entry_counts_and_can_be_left_out(host):
    host.put(FRAGMENT, "[Service]\nEnvironment=LD_PRELOAD=/foreign.so\n")
    managed(host)
    assert read(host).preload == [TCMALLOC]
    assert read(host).managed
    assert read(host, without_ours=True).preload == ["/foreign.so"]
    assert not read(host, without_ours=True).managed


def test_a_later_drop_in_with_a_file_of_its_own_is_reported(host):
    managed(host)
    host.put(LATER, "[Service]\nEnvironmentFile=/etc/late.env\n")
    host.put("/etc/late.env", "LD_PRELOAD=/late.so\n")
    assert se.configured_preload("mariadb", host.run, str(host.root)) == {
        "paths": ["/late.so"],
        "managed": True,
        "overridden_by": ["/etc/late.env"],
        "variables": {},
        "own_variables": {},
    }


@pytest.mark.parametrize("line", ["EnvironmentFile=", "UnsetEnvironment=LD_PRELOAD"])
def test_a_later_drop_in_that_takes_ours_away_is_reported(host, line):
    managed(host)
    host.put(LATER, f"[Service]\n{line}\n")
    assert se.configured_preload("mariadb", host.run, str(host.root))["overridden_by"] == [LATER]


def test_a_later_file_that_says_nothing_about_the_preload_or_contains_ours_is_no_override(host):
    managed(host)
    host.put(LATER, "[Service]\nEnvironmentFile=/etc/late.env\nEnvironment=LD_PRELOAD=/x.so\n")
    host.put("/etc/late.env", f"LD_PRELOAD={TCMALLOC}:/x.so\n")
    assert se.configured_preload("mariadb", host.run, str(host.root))["overridden_by"] == []


def test_an_unknown_unit_no_systemd_and_an_odd_name_are_told_apart(host):
    host.known = False
    with pytest.raises(
        se.UnitError, match=r"mysqld\.service cannot be used, systemd says 'not-found'"
    ) as raised:
        read(host, "mysqld")
    assert raised.value.reason == "no_unit"
    with pytest.raises(se.UnitError) as raised:
        read(host, "../../etc/passwd")
    assert raised.value.reason == "invalid_unit"
    failing = se.Completed(127, "", "systemctl: No such file or directory")
    with pytest.raises(se.UnitError, match="No such file") as raised:
        se.read_unit("mariadb", lambda *_a, **_k: failing, str(host.root))
    assert raised.value.reason == "no_systemd"


def test_comments_that_swallow_a_line_depend_on_the_version_of_systemd(host):
    host.put(FRAGMENT, "[Service]\nEnvironmentFile=/etc/e\n")
    host.put("/etc/e", "# x \\\nLD_PRELOAD=/e.so\n")
    assert read(host).preload == []
    host.version = 254
    assert read(host).preload == ["/e.so"]


def test_the_allocators_variables_of_a_unit_are_told_from_ours_and_from_secrets(host):
    managed(host)
    host.put("/etc/others.env", "MALLOC_CONF=narenas:4\nPASSWORD=secret\nTCMALLOC_RELEASE_RATE=1\n")
    host.put("/etc/systemd/system/mariadb.service.d/a.conf", "[Service]\nEnvironmentFile=/etc/others.env\n")
    host.put(se.environment_path("mariadb.service"), "LD_PRELOAD=/x.so\nMALLOC_CONF=narenas:8\n")
    seen = se.configured_preload("mariadb", host.run, str(host.root))
    assert seen["variables"] == {"MALLOC_CONF": "narenas:8", "TCMALLOC_RELEASE_RATE": "1"}
    assert seen["own_variables"] == {"MALLOC_CONF": "narenas:8"}
