import pytest
from ansible_collections.fleet.mysqltune.plugins.filter.tuning_hosts import tuning_hosts

SEEN = {
    "name": "mariadb.service",
    "flavour": "mariadb",
    "version": "10.11",
    "launcher": {"kind": "systemd"},
    "allocator": {"name": "system", "level": "effective", "reason": None},
}
INTENT = {
    "name": "mariadb.service",
    "action": "deliver",
    "restart": True,
    "method": "systemd",
    "library": "/usr/lib/libtcmalloc.so.4",
    "allocator": "tcmalloc",
    "level": "intended",
    "reason": "stale_process",
    "why": ["preload /usr/lib/libtcmalloc.so.4"],
}
ENDED = {
    "name": "mariadb.service",
    "state": "committed",
    "level": "effective",
    "reason": None,
    "message": "",
    "downtime": 0.5,
    "new_pid": 7,
}


def record(status="change", check_mode=False, message="", **variables):
    plan = {"status": status, "message": message, "notes": [], "instances": [INTENT]}
    variables.setdefault("preflight_observation", {"observed": {"instances": [SEEN]}, "plan": plan})
    variables.setdefault("preflight_lease", {"changed": False})
    return tuning_hosts(["db1"], {"db1": variables}, check_mode)[0]


def activation(state="committed", **changes):
    return {"state": state, "instances": [{**ENDED, "state": state, **changes}]}


def test_a_tuned_host_shows_what_was_proved_and_not_what_was_intended():
    host = record(activate_result=activation())
    server = host["instances"][0]
    assert host["status"] == "tuned"
    assert (server["allocator_before"], server["allocator_after"]) == ("system", "tcmalloc")
    assert (server["level"], server["reason"], server["downtime"]) == ("effective", None, 0.5)


def test_the_files_that_were_changed_are_named():
    unit = {"changed": True, "item": {"name": "mariadb.service"}, "files": ["/a.conf", "/a.env"]}
    script = {"changed": True, "item": {"name": "mariadb.service"}, "files": ["/bin/mysqld_safe"]}
    unchanged = dict(script, changed=False)
    assert record(allocator_systemd={"results": [unit]})["instances"][0]["files"] == ["/a.conf", "/a.env"]
    assert record(allocator_mysqld_safe={"results": [script]})["instances"][0]["files"] == [
        "/bin/mysqld_safe"
    ]
    assert record(allocator_mysqld_safe={"results": [unchanged]})["instances"][0]["files"] == []


def test_check_mode_shows_the_prediction():
    host = record(check_mode=True, activate_result={"instances": []})
    server = host["instances"][0]
    assert host["status"] == "planned"
    assert (server["allocator_after"], server["level"], server["restarted"]) == (
        "tcmalloc",
        "intended",
        False,
    )


@pytest.mark.parametrize("state", ["restored", "restore_failed"])
def test_a_restored_host_keeps_its_old_allocator_and_says_why(state):
    host = record(
        tuning_failure="mariadbd crashed",
        activate_result=activation(state, reason="crash", level="delivered"),
    )
    server = host["instances"][0]
    assert (host["status"], host["message"]) == (state, "mariadbd crashed")
    assert (server["allocator_after"], server["reason"]) == ("system", "crash")


def test_a_failure_before_the_restart_is_a_failed_host():
    host = record(tuning_failure="no disk space")
    assert (host["status"], host["message"]) == ("failed", "no disk space")
    assert host["instances"][0]["allocator_after"] == "system"


@pytest.mark.parametrize(
    ("planned", "status"), [("nothing", "unchanged"), ("refused", "refused"), ("stopped", "stopped")]
)
def test_a_host_that_was_not_changed_has_the_status_of_its_plan(planned, status):
    assert record(planned, message="because")["status"] == status


def test_a_host_that_could_not_be_observed_is_failed_with_the_cause():
    host = record(preflight_observation={"failed": True, "msg": "defaults_file /x does not exist"})
    assert (host["status"], host["message"]) == ("failed", "defaults_file /x does not exist")


def test_a_host_that_was_lost_on_the_way_is_never_called_tuned():
    memory = {"host_memory_result": {"changed": True}}
    lost = [record(), record(activate_result={"unreachable": True, "msg": "gone"}, **memory)]
    lost.append(record(preflight_closed={"unreachable": True}, **memory))
    assert [host["status"] for host in lost] == ["unreachable"] * 3
    assert "finishes or undoes by itself" in lost[0]["message"]


def test_a_host_that_had_its_lease_back_without_a_restart_is_as_its_memory_settings_say():
    assert record(preflight_closed={})["status"] == "unreachable"
    done = {"preflight_closed": {"changed": False}}
    assert record(**done)["status"] == "unchanged"
    assert record(host_memory_result={"changed": True}, **done)["status"] == "tuned"


def test_a_host_of_a_later_wave_was_not_started():
    assert (
        tuning_hosts(["db1"], {"db1": {"preflight_observation": record_of_plan()}})[0]["status"]
        == "not_started"
    )
    gate = "not started: db0 of an earlier wave ended badly"
    host = tuning_hosts(
        ["db1"], {"db1": {"preflight_observation": record_of_plan(), "tuning_failure": gate}}
    )[0]
    assert (host["status"], host["message"]) == ("not_started", "db0 of an earlier wave ended badly")


def record_of_plan():
    plan = {"status": "change", "message": "", "notes": [], "instances": [INTENT]}
    return {"observed": {"instances": [SEEN]}, "plan": plan}


def test_a_host_without_an_observation_was_not_reached():
    assert record(preflight_observation={})["status"] == "unreachable"
