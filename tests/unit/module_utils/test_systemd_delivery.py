"""What is written for a unit, refused, and how it is undone."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import systemd_delivery as sd
from ansible_collections.fleet.mysqltune.plugins.module_utils import systemd_env as se
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for, restore
from unit_host import FRAGMENT, LATER, UnitHost

TCMALLOC = "/usr/lib/libtcmalloc_minimal.so.4"
JEMALLOC = "/usr/lib/libjemalloc.so.2"
ENV = "/etc/fleet-mysqltune/mariadb.service.env"
DROP_IN = "/etc/systemd/system/mariadb.service.d/zz-fleet-mysqltune.conf"


@pytest.fixture
def host(tmp_path):
    return UnitHost(tmp_path / "root")


def wanted(host, library=(TCMALLOC,), environment=None, present=True):
    return sd.delivery(
        "mariadb", list(library), environment or {}, present, host.run, str(host.root), host.proc
    )


def write(host, decision, run_id="r1"):
    with journal_for(run_id, str(host.root / "state")) as journal:
        sd.apply(decision, journal, host.run, str(host.root))


def test_both_files_are_written_once_and_the_manager_is_told(host):
    decision = wanted(host)
    assert (decision.changed, decision.preload, decision.restart_required) == (True, [TCMALLOC], False)
    assert [part["after_header"] for part in decision.diff] == [ENV, DROP_IN]
    assert not host.has(ENV)
    write(host, decision)
    assert host.text(ENV).startswith("# Managed by fleet.mysqltune:")
    assert host.text(ENV).endswith(f"\nLD_PRELOAD={TCMALLOC}\n")
    assert host.text(DROP_IN).startswith("# Managed by fleet.mysqltune:")
    assert host.text(DROP_IN).endswith(f"[Service]\nEnvironmentFile=-{ENV}\n")
    assert ["systemctl", "daemon-reload"] in host.calls
    assert not wanted(host).changed
    assert wanted(host).diff == []


def test_a_manager_that_was_not_told_is_told_by_the_next_run(host):
    write(host, wanted(host))
    host.manager = set()
    assert (wanted(host).changed, wanted(host).diff) == (True, [])


def test_the_diff_keeps_secrets_to_itself(host):
    decision = wanted(host, environment={"VAULT_TOKEN": "hunter2 and more", "MALLOC_CONF": "x:1"})
    assert "hunter2" in (decision.after[ENV] or "")
    assert "hunter2" not in str(decision.diff) and "and more" not in str(decision.diff)
    assert "MALLOC_CONF=x:1" in decision.diff[0]["after"]


def test_foreign_preloads_stay_first_and_in_order(host):
    host.put(
        FRAGMENT, "[Service]\nEnvironment=LD_PRELOAD=/opt/gov.so\nEnvironmentFile=-/etc/sysconfig/mysql\n"
    )
    host.put("/etc/sysconfig/mysql", "LD_PRELOAD=/opt/hot.so:/opt/gov.so\n")
    write(host, wanted(host))
    assert wanted(host).preload == ["/opt/hot.so", "/opt/gov.so", TCMALLOC]
    host.put("/etc/sysconfig/mysql", "LD_PRELOAD=/opt/hot.so\n")
    assert wanted(host).preload == ["/opt/hot.so", TCMALLOC]
    assert wanted(host).changed


def test_a_library_that_is_preloaded_already_is_not_doubled(host):
    host.put(FRAGMENT, f"[Service]\nEnvironment=LD_PRELOAD={TCMALLOC}\n")
    assert wanted(host).preload == [TCMALLOC]


def test_two_names_of_one_file_are_one_library(host, tmp_path):
    (tmp_path / "libtcmalloc_minimal.so.4.5.9").touch()
    (tmp_path / "libtcmalloc.so").symlink_to(tmp_path / "libtcmalloc_minimal.so.4.5.9")
    host.put(FRAGMENT, f"[Service]\nEnvironment=LD_PRELOAD={tmp_path}/libtcmalloc.so\n")
    assert wanted(host, [f"{tmp_path}/libtcmalloc_minimal.so.4.5.9"]).preload == [
        f"{tmp_path}/libtcmalloc.so"
    ]


def test_a_second_allocator_is_refused_and_the_file_that_sets_the_first_is_named(host):
    host.put(FRAGMENT, "[Service]\nEnvironmentFile=/etc/sysconfig/mysql\n")
    host.put("/etc/sysconfig/mysql", f"LD_PRELOAD='/opt/hot.so {JEMALLOC}'\n")
    with pytest.raises(se.UnitError, match=f"/etc/sysconfig/mysql already preloads {JEMALLOC}") as raised:
        wanted(host)
    assert raised.value.reason == "second_allocator"
    with pytest.raises(se.UnitError, match="names two allocators") as raised:
        wanted(UnitHost(host.root.parent / "other"), [TCMALLOC, JEMALLOC])
    assert raised.value.reason == "second_allocator"


def test_a_library_that_is_no_allocator_may_join_a_foreign_allocator(host):
    host.put(FRAGMENT, f"[Service]\nEnvironment=LD_PRELOAD={JEMALLOC}\n")
    assert wanted(host, ["/usr/lib/libfasttime.so.1"]).preload == [JEMALLOC, "/usr/lib/libfasttime.so.1"]


@pytest.mark.parametrize(
    "path", ["/a b.so", "/a:b.so", "/a'b.so", '/a"b.so', "/a$b.so", "/a`b.so", "libx.so"]
)
def test_a_path_that_ld_so_would_take_apart_is_refused(host, path):
    with pytest.raises(se.UnitError) as raised:
        wanted(host, [path])
    assert raised.value.reason == "unsafe_path"


@pytest.mark.parametrize("environment", [{"LD_PRELOAD": "/x"}, {"1A": "x"}, {"A": "x\ny"}])
def test_variables_that_do_not_belong_here_are_refused(host, environment):
    with pytest.raises(se.UnitError) as raised:
        wanted(host, environment=environment)
    assert raised.value.reason == "invalid_environment"


def test_variables_are_written_so_that_systemd_reads_the_same(host):
    write(host, wanted(host, environment={"MALLOC_CONF": 'a:"b" $c \\d', "B": "1"}))
    unit = se.read_unit("mariadb", host.run, str(host.root))
    assert unit.variables == {"LD_PRELOAD": TCMALLOC, "MALLOC_CONF": 'a:"b" $c \\d', "B": "1"}


@pytest.mark.parametrize(
    ("drop_in", "culprit"),
    [
        ("EnvironmentFile=/etc/late.env", "/etc/late.env"),
        ("EnvironmentFile=", LATER),
        ("UnsetEnvironment=LD_PRELOAD", LATER),
    ],
)
def test_what_would_override_us_is_known_before_anything_is_written(host, drop_in, culprit):
    host.put("/etc/late.env", "LD_PRELOAD=/late.so\n")
    host.put(LATER, f"[Service]\n{drop_in}\n")
    assert wanted(host).overridden_by == [culprit]
    assert wanted(host, present=False).overridden_by == []


def test_a_restart_is_required_only_if_the_running_process_differs_from_the_next_start(host):
    host.start()
    assert wanted(host).restart_required
    host.start(LD_PRELOAD=TCMALLOC)
    assert not wanted(host).restart_required
    assert wanted(host, environment={"MALLOC_CONF": "x:1"}).restart_required
    assert wanted(host, present=False).restart_required
    host.start(LD_PRELOAD=TCMALLOC, MALLOC_CONF="x:1")
    assert not wanted(host, environment={"MALLOC_CONF": "x:1"}).restart_required
    write(host, wanted(host, environment={"MALLOC_CONF": "x:1"}))
    assert wanted(host).restart_required


def test_absent_removes_both_files_and_the_directories_that_are_empty_then(host):
    assert not wanted(host, [], present=False).changed
    write(host, wanted(host))
    decision = wanted(host, [], present=False)
    assert decision.changed
    assert [part["after_header"] for part in decision.diff] == ["/dev/null", "/dev/null"]
    write(host, decision)
    assert not host.has("/etc/fleet-mysqltune")
    assert not host.has("/etc/systemd/system/mariadb.service.d")
    assert host.calls[-1] == ["systemctl", "daemon-reload"]
    assert not wanted(host, [], present=False).changed


def test_absent_leaves_what_others_put_beside_our_files(host):
    write(host, wanted(host))
    host.put("/etc/systemd/system/mariadb.service.d/theirs.conf", "[Service]\n")
    write(host, wanted(host, [], present=False))
    assert host.has("/etc/systemd/system/mariadb.service.d/theirs.conf")


def test_the_journal_takes_it_all_back_and_tells_the_manager(host):
    write(host, wanted(host))
    with journal_for("r1", str(host.root / "state")) as journal:
        journal.close("committed")
    host.calls.clear()
    assert restore("r1", str(host.root / "state"), run=host.run).ok
    assert not host.has(ENV)
    assert not host.has(DROP_IN)
    assert not host.has("/etc/fleet-mysqltune")
    assert ["systemctl", "daemon-reload"] in host.calls


def test_the_journal_also_takes_a_removal_back(host):
    write(host, wanted(host))
    with journal_for("r1", str(host.root / "state")) as journal:
        journal.close("committed")
    before = host.text(ENV), host.text(DROP_IN)
    write(host, wanted(host, [], present=False), run_id="r2")
    with journal_for("r2", str(host.root / "state")) as journal:
        journal.close("committed")
    assert restore("r2", str(host.root / "state"), run=host.run).ok
    assert (host.text(ENV), host.text(DROP_IN)) == before


def test_a_manager_that_cannot_reload_is_an_error(host):
    decision = wanted(host)
    host_run = host.run

    def failing(argv, **options):
        return sd.run_command(["false"]) if "daemon-reload" in argv else host_run(argv, **options)

    with pytest.raises(se.UnitError) as raised, journal_for("r1", str(host.root / "state")) as journal:
        sd.apply(decision, journal, failing, str(host.root))
    assert raised.value.reason == "reload"
