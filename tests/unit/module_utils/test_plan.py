import copy

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.plan import plan, summary, unobserved
from ansible_collections.fleet.mysqltune.plugins.module_utils.refusals import restart_refusal

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def instance(**changes):
    base = {
        "name": "mariadb.service",
        "pid": 100,
        "exe": "/usr/sbin/mariadbd",
        "bits": 64,
        "machine": "x86_64",
        "secure_exec": False,
        "confinement": "unconfined",
        "launcher": {"kind": "systemd", "unit": "mariadb.service", "script": None, "init_script": None},
        "topology": {"role": "standalone", "replica": False, "peers": [], "error": None},
        "allocator": {
            "name": "system",
            "path": "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "configured": [],
            "managed": False,
            "environ": "",
            "mapped": [],
            "deleted": [],
            "linked": None,
            "bound": {
                "malloc": "/usr/lib/x86_64-linux-gnu/libc.so.6",
                "free": "/usr/lib/x86_64-linux-gnu/libc.so.6",
            },
            "level": "effective",
            "reason": None,
        },
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) else value
    return base


def tuned(**changes):
    return instance(
        allocator={
            "name": "tcmalloc",
            "path": TCMALLOC,
            "configured": [TCMALLOC],
            "managed": True,
            "environ": TCMALLOC,
            "mapped": [TCMALLOC],
            "bound": {"malloc": TCMALLOC, "free": TCMALLOC},
        },
        **changes,
    )


def library(path=TCMALLOC, allocator="tcmalloc", **changes):
    return {
        "path": path,
        "real_path": path,
        "allocator": allocator,
        "bits": 64,
        "machine": "x86_64",
        "package": "libgoogle-perftools4",
        "usable": True,
        "reason": None,
        **changes,
    }


def observed(*instances, libraries=(), **changes):
    return {
        "host": {
            "system": "Linux",
            "machine": "x86_64",
            "distribution": {"id": "debian", "version": "12", "like": []},
        },
        "instances": list(instances),
        "libraries": list(libraries),
        "lease": None,
        "unfinished": [],
        "last_run": None,
        **changes,
    }


def desired(name="tcmalloc", delivery="auto", **changes):
    return {
        "allocator": {"name": name, "delivery": delivery},
        "benchmark": "none",
        "run_id": "run",
        **changes,
    }


def test_a_virgin_host_gets_the_library_and_one_restart():
    result = plan(observed(instance(), libraries=[library()]), desired())
    intent = result["instances"][0]
    assert result["status"] == "change"
    assert (intent["action"], intent["method"], intent["library"]) == ("deliver", "systemd", TCMALLOC)
    assert intent["restart"] and not intent["predicted"]


def test_a_tuned_host_needs_nothing():
    result = plan(observed(tuned(), libraries=[library()]), desired())
    assert result["status"] == "nothing"
    assert result["instances"][0]["action"] == "none"


def test_a_library_that_is_not_installed_is_predicted_from_its_package():
    result = plan(observed(instance()), desired())
    assert result["packages"] == ["libgoogle-perftools4"]
    assert result["instances"][0]["predicted"]
    assert result["instances"][0]["library"] == TCMALLOC


SOURCE = {
    "project": "gperftools",
    "version": "2.16",
    "sha256": "ab" * 32,
    "number": 4,
    "ready": True,
    "archive": "/srv/gperftools.tar.gz",
    "prefix": "/opt/fleet-mysqltune",
}
BUILT = "/opt/fleet-mysqltune/tcmalloc-2.16/lib/libtcmalloc.so.4"


def plan_from_source(*instances, libraries=(), name="tcmalloc", **changes):
    wanted = desired(name)
    wanted["allocator"]["source"] = {**SOURCE, **changes}
    return plan(observed(*instances, libraries=libraries), wanted)


def test_what_is_to_be_built_is_preferred_to_the_package_that_is_there():
    result = plan_from_source(instance(), libraries=[library()])
    [intent] = result["instances"]
    assert (intent["library"], intent["build"], intent["predicted"]) == (BUILT, True, True)
    assert (result["packages"], result["build"]) == ([], [{"allocator": "tcmalloc", **SOURCE}])


def test_what_was_built_from_this_archive_is_taken_and_not_built_again():
    mine = library(BUILT, package=None, source="ab" * 32)
    result = plan_from_source(instance(), libraries=[library(), mine])
    assert (result["instances"][0]["library"], result["build"]) == (BUILT, [])
    done = instance(
        allocator={**tuned()["allocator"], "configured": [BUILT], "mapped": [BUILT], "environ": BUILT}
    )
    done["allocator"]["bound"] = {"malloc": BUILT, "free": BUILT}
    result = plan_from_source(done, libraries=[library(), mine])
    assert (result["status"], result["build"]) == ("nothing", [])


@pytest.mark.parametrize(
    "other",
    [
        library(BUILT, package=None, source="cd" * 32),
        library(BUILT.replace("2.16", "2.10"), package=None, source="ab" * 32),
        library(BUILT.replace("/opt/", "/srv/"), package=None, source="ab" * 32),
        library(BUILT, "tcmalloc_minimal", package=None, source="ab" * 32),
    ],
)
def test_what_was_built_from_another_archive_or_elsewhere_does_not_count(other):
    assert plan_from_source(instance(), libraries=[other])["build"]


def test_what_was_built_and_cannot_be_used_is_told_and_not_built_again():
    loose = library(
        BUILT, package=None, source="ab" * 32, usable=False, reason="unsafe_path", message="loose."
    )
    result = plan_from_source(instance(), libraries=[loose])
    assert (result["status"], result["reason"], result["message"]) == ("failed", "unsafe_path", "loose.")


def test_without_a_known_soname_the_link_is_predicted():
    [intent] = plan_from_source(instance(), number=None)["instances"]
    assert intent["library"] == BUILT.removesuffix(".4")


def test_a_stopped_server_needs_no_build():
    stopped = instance(pid=None, launcher={"kind": "stopped"})
    assert plan_from_source(stopped)["build"] == []


def test_files_that_are_right_under_an_old_process_need_only_a_restart():
    stale = instance(allocator={"configured": [TCMALLOC], "managed": True})
    intent = plan(observed(stale, libraries=[library()]), desired())["instances"][0]
    assert (intent["action"], intent["restart"]) == ("restart", True)


def test_system_takes_our_preload_away():
    intent = plan(observed(tuned(), libraries=[library()]), desired("system"))["instances"][0]
    assert (intent["action"], intent["library"], intent["restart"]) == ("deliver", None, True)


def test_system_on_a_virgin_host_is_nothing():
    assert plan(observed(instance()), desired("system"))["status"] == "nothing"


def test_a_preload_made_by_somebody_else_is_adopted_if_it_is_the_wanted_one():
    adopted = tuned()
    adopted["allocator"]["managed"] = False
    assert plan(observed(adopted, libraries=[library()]), desired())["status"] == "nothing"


def test_the_same_file_under_another_name_is_no_other_library():
    real = f"{TCMALLOC}.5.10"
    adopted = tuned()
    adopted["allocator"].update(
        managed=False, configured=[real], environ=real, mapped=[real], resolved={real: real}
    )
    adopted["allocator"]["bound"] = {"malloc": real, "free": real}
    result = plan(observed(adopted, libraries=[library(real_path=real)]), desired())
    assert (result["status"], result["instances"][0]["library"]) == ("nothing", real)


def test_another_allocator_in_somebody_elses_file_is_refused_and_named():
    foreign = instance(allocator={"configured": [JEMALLOC]})
    result = plan(observed(foreign, libraries=[library()]), desired())
    assert (result["status"], result["reason"]) == ("failed", "second_allocator")
    assert JEMALLOC in result["message"]


def started_by_safe(one, **allocator):
    launcher = {"kind": "mysqld_safe", "unit": None, "script": "/usr/bin/mysqld_safe", "init_script": None}
    return {**one, "launcher": launcher, "allocator": {**one["allocator"], **allocator}}


def in_file(library=TCMALLOC, ours=True):
    return [{"file": "/etc/my.cnf", "library": library, "ours": ours}]


def test_malloc_lib_is_a_delivery_for_mysqld_safe_alone():
    server = started_by_safe(instance())
    [intent] = plan(observed(server, libraries=[library()]), desired(delivery="malloc_lib"))["instances"]
    assert (intent["action"], intent["method"]) == ("deliver", "malloc_lib")
    result = plan(observed(instance(), libraries=[library()]), desired(delivery="malloc_lib"))
    assert (result["status"], result["reason"]) == ("failed", "launcher_mismatch")


@pytest.mark.parametrize(
    ("delivery", "malloc_libs", "managed", "action"),
    [
        ("auto", in_file(), True, "none"),
        ("malloc_lib", in_file(), True, "none"),
        ("mysqld_safe", in_file(), True, "deliver"),
        ("malloc_lib", [], True, "deliver"),
        ("malloc_lib", in_file(ours=False), False, "none"),
        ("mysqld_safe", in_file(ours=False), False, "none"),
    ],
)
def test_ours_is_delivered_again_where_another_method_is_insisted_on(delivery, malloc_libs, managed, action):
    server = started_by_safe(tuned(), malloc_libs=malloc_libs, managed=managed)
    [intent] = plan(observed(server, libraries=[library()]), desired(delivery=delivery))["instances"]
    assert intent["action"] == action


@pytest.mark.parametrize("name", ["tcmalloc", "system", "glibc"])
def test_a_malloc_lib_of_another_allocator_is_refused_with_its_file(name):
    server = started_by_safe(instance(), configured=[JEMALLOC], malloc_libs=in_file(JEMALLOC, ours=False))
    result = plan(observed(server, libraries=[library()]), desired(name))
    assert (result["status"], result["reason"]) == ("failed", "second_allocator")
    assert "/etc/my.cnf sets malloc-lib=" in result["message"] and JEMALLOC in result["message"]


def test_variables_are_refused_where_malloc_lib_has_to_carry_them():
    wanted = desired("glibc", delivery="malloc_lib")
    result = plan(observed(started_by_safe(instance())), wanted)
    assert (result["status"], result["reason"]) == ("failed", "bad_value")
    assert "MALLOC_ARENA_MAX" in result["message"]


def test_system_takes_our_malloc_lib_away():
    server = started_by_safe(tuned(), malloc_libs=in_file())
    [intent] = plan(observed(server), desired("system", delivery="malloc_lib"))["instances"]
    assert (intent["action"], intent["library"]) == ("deliver", None)


CONF = {"MALLOC_CONF": "narenas:4"}


def with_variables(configured, running, own=None, **changes):
    one = tuned(**changes)
    one["allocator"].update(
        configured_variables=configured,
        variables=running,
        own_variables=configured if own is None else own,
    )
    return one


def tune_with(environment, *instances, name="tcmalloc"):
    wanted = desired(name)
    wanted["allocator"]["environment"] = environment
    return plan(observed(*instances, libraries=[library()]), wanted)


@pytest.mark.parametrize(
    ("one", "environment", "action", "why"),
    [
        (tuned(), CONF, "deliver", f"preload {TCMALLOC} and set MALLOC_CONF=narenas:4"),
        (with_variables(CONF, CONF), CONF, "none", None),
        (with_variables(CONF, {}), CONF, "restart", "the running process has another MALLOC_CONF"),
        (with_variables(CONF, CONF), {}, "deliver", f"preload {TCMALLOC}"),
        (
            with_variables(CONF, CONF, own={}),
            CONF,
            "deliver",
            f"preload {TCMALLOC} and set MALLOC_CONF=narenas:4",
        ),
        (with_variables(CONF, CONF, own={}), {}, "none", None),
    ],
)
def test_the_variables_travel_with_the_allocator(one, environment, action, why):
    [intent] = tune_with(environment, one)["instances"]
    assert (intent["action"], intent["why"]) == (action, [why] if why else [])
    assert intent["environment"] == environment


def test_numbers_among_the_variables_are_texts():
    [intent] = tune_with({"MALLOC_ARENA_MAX": 4}, instance(), name="glibc")["instances"]
    assert intent["environment"] == {"MALLOC_ARENA_MAX": "4"}


def test_glibc_is_the_systems_allocator_with_capped_arenas():
    [intent] = plan(observed(instance()), desired("glibc"))["instances"]
    assert (intent["library"], intent["environment"]) == (None, {"MALLOC_ARENA_MAX": "2"})
    assert (intent["action"], intent["allocator"]) == ("deliver", "glibc")
    assert intent["why"] == ["set MALLOC_ARENA_MAX=2"]
    done = instance()
    capped = {"MALLOC_ARENA_MAX": "2"}
    done["allocator"].update(
        managed=True, own_variables=capped, configured_variables=capped, variables=capped
    )
    assert plan(observed(done), desired("glibc"))["status"] == "nothing"
    [intent] = plan(observed(done), desired("system"))["instances"]
    assert (intent["action"], intent["why"]) == ("deliver", ["remove what is left of an earlier delivery"])


def test_glibc_takes_the_place_of_a_preload():
    [intent] = plan(observed(tuned()), desired("glibc"))["instances"]
    assert intent["why"] == [f"remove the preload of {TCMALLOC} and set MALLOC_ARENA_MAX=2"]


def test_glibc_is_refused_where_the_binary_is_linked_with_another():
    result = plan(observed(instance(allocator={"linked": "libtcmalloc.so.4"})), desired("glibc"))
    assert (result["status"], result["reason"]) == ("refused", "linked_allocator")


def test_the_systems_allocator_takes_no_variables():
    result = tune_with(CONF, instance(), name="system")
    assert (result["status"], result["reason"]) == ("failed", "bad_value")
    assert "Use glibc" in result["message"]


def of_multi(number, kind="mysqld_safe", **changes):
    launcher = {
        "kind": kind,
        "unit": "multi.service",
        "script": "/usr/bin/mysqld_safe",
        "init_script": None,
    }
    return {**instance(name=f"/srv/{number}", launcher=launcher), "pid": 100 + number, **changes}


def test_servers_of_one_launcher_are_restarted_together():
    other = {**tuned(), "name": "/srv/2", "launcher": of_multi(2)["launcher"]}
    result = plan(observed(of_multi(1), other, libraries=[library()]), desired())
    assert [(i["restart"], i["action"]) for i in result["instances"]] == [
        (True, "deliver"),
        (True, "restart"),
    ]
    assert result["instances"][1]["why"] == ["multi.service restarts it together with /srv/1"]


def test_nothing_is_restarted_if_none_of_one_launcher_needs_it():
    both = [
        {**tuned(), "name": f"/srv/{number}", "launcher": of_multi(number)["launcher"]} for number in (1, 2)
    ]
    assert plan(observed(*both, libraries=[library()]), desired())["status"] == "nothing"


def test_a_restart_that_would_start_a_stopped_server_is_refused():
    stopped = of_multi(2, kind="stopped", pid=None)
    result = plan(observed(of_multi(1), stopped, libraries=[library()]), desired())
    assert (result["status"], result["reason"]) == ("failed", "launcher_mismatch")
    assert "multi.service starts /srv/1 and /srv/2, which is stopped" in result["message"]


def test_an_init_script_that_starts_the_daemon_is_served_through_its_generated_unit():
    launcher = {"kind": "sysv", "unit": "mysql.service", "init_script": "/etc/init.d/mysql"}
    [intent] = plan(observed(instance(launcher=launcher), libraries=[library()]), desired())["instances"]
    assert (intent["method"], intent["unit"], intent["action"]) == ("systemd", "mysql.service", "deliver")
    result = plan(observed(instance(launcher={**launcher, "unit": None}), libraries=[library()]), desired())
    assert (
        result["reason"] == "launcher_mismatch"
        and "no systemd unit stands for the script" in result["message"]
    )


def test_a_stopped_server_stays_stopped():
    stopped = instance(pid=None, launcher={"kind": "stopped"})
    result = plan(observed(stopped, libraries=[library()]), desired())
    assert result["status"] == "stopped"
    assert result["instances"][0]["restart"] is False


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"bits": 32}, "elf_class", "32-bit"),
        ({"machine": "aarch64"}, "elf_machine", "aarch64"),
        (
            {"usable": False, "reason": "unsafe_path", "message": "others may write /x"},
            "unsafe_path",
            "others may write",
        ),
    ],
)
def test_an_unfit_library_is_refused_with_its_reason(change, reason, words):
    result = plan(observed(instance(), libraries=[library(**change)]), desired())
    assert (result["status"], result["reason"]) == ("failed", reason)
    assert words in result["message"]


def test_a_fit_library_wins_over_an_unfit_one_of_the_same_name():
    bad = library("/usr/lib32/libtcmalloc.so.4", bits=32)
    assert (
        plan(observed(instance(), libraries=[bad, library()]), desired())["instances"][0]["library"]
        == TCMALLOC
    )


def test_the_library_that_is_in_use_is_kept_when_another_fits_too():
    other = library("/usr/lib/aa/libtcmalloc.so.4")
    assert plan(observed(tuned(), libraries=[other, library()]), desired())["status"] == "nothing"


def test_a_missing_absolute_path_is_named_with_what_is_there_instead():
    words = "/opt/none.so does not exist."
    missing = library("/opt/none.so", None, usable=False, reason="not_found", message=words)
    result = plan(observed(instance(), libraries=[missing]), desired("/opt/none.so"))
    assert (result["status"], result["reason"], result["message"]) == ("failed", "not_found", words)


def test_a_directory_in_place_of_a_library_is_named():
    result = plan(observed(instance()), desired("/usr/lib"))
    assert (result["status"], result["reason"]) == ("failed", "not_found")
    assert "/usr/lib is a directory" in result["message"]


def test_a_masked_unit_is_refused_with_the_command_that_unmasks_it():
    result = plan(observed(instance(launcher={"kind": "masked"}), libraries=[library()]), desired())
    assert (result["status"], result["reason"]) == ("failed", "launcher_mismatch")
    assert "Run systemctl unmask mariadb.service" in result["message"]


@pytest.mark.parametrize(
    ("server", "state", "status"),
    [
        (tuned(), "committed", "nothing"),
        (tuned(), "restored", "failed"),
        (instance(), "committed", "failed"),
    ],
)
def test_a_run_that_has_committed_stops_only_those_who_would_change_something(server, state, status):
    lease = {"run_id": "other", "live": True, "holder": "a colleague", "expires": 0.0}
    last = {"run_id": "other", "state": state, "message": "", "reason": None, "finished": 1.0}
    result = plan(observed(server, libraries=[library()], lease=lease, last_run=last), desired())
    assert result["status"] == status
    assert (result["reason"] == "lease_held") is (status == "failed")


def test_a_search_path_that_is_not_there_is_told():
    missing = library("/opt/lib", None, usable=False, reason="not_found")
    asked = desired()
    asked["allocator"]["search_path"] = ["/opt/lib", "/opt/other"]
    notes = plan(observed(tuned(), libraries=[library(), missing]), asked)["notes"]
    assert notes == ["allocator_search_path has /opt/lib, which does not exist on this host"]


def test_a_wrong_name_is_answered_with_the_choices():
    result = plan(observed(instance()), desired("tcmaloc"))
    assert result["reason"] == "bad_value"
    assert "'tcmaloc'" in result["message"] and "jemalloc" in result["message"]


def test_an_allocator_of_solaris_is_neither_offered_nor_taken_on_linux():
    result = plan(observed(instance()), desired("umem"))
    assert (result["status"], result["reason"]) == ("failed", "bad_value")
    offered = result["message"].partition("Use one of ")[2]
    assert "'umem', which Linux does not have" in result["message"]
    assert "jemalloc" in offered and not any(name in offered for name in ("umem", "mtmalloc", "hoard"))
    assert "umem" in offered_on_solaris()


def offered_on_solaris():
    host = {"system": "SunOS", "machine": "x86_64"}
    return plan(observed(host=host), desired("tcmaloc"))["message"].partition("Use one of ")[2]


def test_a_host_with_wrong_variables_is_not_planned_and_not_undone():
    result = unobserved("sysbench_duration is 0.")
    assert (result["status"], result["reason"]) == ("failed", "bad_value")
    assert result["restart_refusal"] == "sysbench_duration is 0."
    assert result.keys() == plan(observed(instance()), desired()).keys()
    assert summary(result) == ["failed: sysbench_duration is 0."]


def test_a_host_without_a_server_is_failed():
    assert plan(observed(), desired())["reason"] == "no_mysqld"


def test_a_live_lease_of_another_run_is_respected_and_our_own_is_not_in_the_way():
    lease = {"run_id": "other", "live": True, "holder": "root@controller", "expires": 0}
    assert plan(observed(instance(), lease=lease), desired())["reason"] == "lease_held"
    own = {**lease, "run_id": "run"}
    assert plan(observed(instance(), libraries=[library()], lease=own), desired())["status"] == "change"
    expired = {**lease, "live": False}
    assert plan(observed(instance(), libraries=[library()], lease=expired), desired())["status"] == "change"


@pytest.mark.parametrize(("kind", "words"), [("bare", "nothing would start it"), ("sysv", "init script")])
def test_a_launcher_that_cannot_deliver_is_refused_with_instructions(kind, words):
    result = plan(observed(instance(launcher={"kind": kind, "unit": None}), libraries=[library()]), desired())
    assert (result["status"], result["reason"]) == ("failed", "launcher_mismatch")
    assert words in result["message"]


def test_a_method_that_the_launcher_does_not_honour_is_refused():
    result = plan(observed(instance(), libraries=[library()]), desired(delivery="mysqld_safe"))
    assert result["reason"] == "launcher_mismatch"


def test_nothing_is_stacked_on_a_linked_allocator():
    linked = instance(allocator={"linked": "libtcmalloc.so.4", "name": "tcmalloc"})
    assert plan(observed(linked, libraries=[library()]), desired("jemalloc"))["reason"] == "linked_allocator"


@pytest.mark.parametrize(
    ("role", "consent", "status"),
    [
        ("primary", {}, "refused"),
        ("primary", {"include_primaries": True}, "change"),
        ("primary", {"include_cluster_members": True}, "refused"),
        ("galera", {}, "refused"),
        ("galera", {"include_primaries": True}, "refused"),
        ("galera", {"include_cluster_members": True}, "change"),
        ("group_replication", {}, "refused"),
        ("replica", {}, "change"),
        ("unknown", {"include_primaries": True, "include_cluster_members": True}, "failed"),
    ],
)
def test_what_others_depend_on_is_not_restarted_without_consent(role, consent, status):
    server = instance(topology={"role": role, "peers": ["db2:3306"], "error": "access denied"})
    assert plan(observed(server, libraries=[library()]), desired(**consent))["status"] == status


def test_a_primary_that_needs_no_restart_is_not_refused():
    primary = tuned(topology={"role": "primary", "peers": ["db2"]})
    seen = observed(primary, libraries=[library()])
    assert plan(seen, desired())["status"] == "nothing"
    assert "primary" in restart_refusal(seen, desired())


@pytest.mark.parametrize("role", ["primary", "replica", "galera", "group_replication"])
def test_a_replication_member_is_not_measured_without_consent(role):
    server = instance(topology={"role": role, "peers": []})
    asked = desired(benchmark="before_after", include_primaries=True, include_cluster_members=True)
    result = plan(observed(server, libraries=[library()]), asked)
    assert result["benchmark"]["measure"] is False
    assert role in result["benchmark"]["reason"]
    consented = plan(observed(server, libraries=[library()]), dict(asked, benchmark_replication_members=True))
    assert consented["benchmark"]["measure"] is True


def test_what_needs_no_change_is_not_measured():
    result = plan(observed(tuned(), libraries=[library()]), desired(benchmark="before_after"))
    assert result["benchmark"]["measure"] is False


def test_an_interrupted_run_is_a_change_even_where_all_else_is_as_asked():
    left = [{"run_id": "old", "state": "activating", "started": 0}]
    result = plan(observed(tuned(), libraries=[library()], unfinished=left), desired())
    assert result["status"] == "change"
    assert "old" in result["notes"][0]


def test_an_interrupted_run_is_undone_even_where_the_server_does_not_answer():
    left = [{"run_id": "old", "state": "activating", "started": 0}]
    hanging = instance(topology={"role": "unknown", "peers": [], "error": "timeout"})
    seen = observed(hanging, libraries=[library()], unfinished=left)
    assert plan(seen, desired())["status"] == "change"
    assert restart_refusal(seen, desired()) == ""
    held = {"run_id": "other", "live": True, "holder": "root", "expires": 0}
    assert plan(dict(seen, lease=held), desired())["reason"] == "lease_held"
    assert plan(seen, desired("tcmaloc"))["reason"] == "bad_value"


def test_the_next_run_says_how_the_last_one_ended():
    last = {
        "run_id": "old",
        "state": "restored",
        "message": "mariadbd crashed",
        "reason": "crash",
        "finished": 0,
    }
    notes = plan(observed(tuned(), libraries=[library()], last_run=last), desired())["notes"]
    assert "mariadbd crashed" in notes[0]


def test_a_server_that_is_down_since_a_failed_restore_is_no_server_that_was_stopped_on_purpose():
    last = {"run_id": "old", "state": "restore_failed", "message": "crash", "reason": "crash", "finished": 0}
    stopped = instance(pid=None, launcher={"kind": "stopped"})
    result = plan(observed(stopped, libraries=[library()], last_run=last), desired())
    assert (result["status"], result["reason"]) == ("failed", "restore_failed")
    assert "rollback.yml" in result["message"]


def test_planning_leaves_its_input_alone():
    seen, wanted = observed(instance(), libraries=[library()]), desired()
    before = copy.deepcopy((seen, wanted))
    plan(seen, wanted)
    assert (seen, wanted) == before


def test_the_summary_has_one_line_per_instance():
    assert summary(plan(observed(tuned(), libraries=[library()]), desired())) == [
        f"mariadb.service: effective, {TCMALLOC}"
    ]
    assert summary(plan(observed(), desired()))[0].startswith("failed: no mysqld")
