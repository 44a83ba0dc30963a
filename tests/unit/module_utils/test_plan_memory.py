"""The memory of a host in its plan: it changes a host without a restart, and never a host that is left alone."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.host_memory import observe
from ansible_collections.fleet.mysqltune.plugins.module_utils.plan import plan, summary
from memory_host import OURS_SYSCTL, MemoryHost
from test_plan import desired, instance, observed, tuned


@pytest.fixture
def host(tmp_path):
    return MemoryHost(tmp_path)


def planned(host, *instances, memory=None, **changes):
    seen = observed(*instances, **changes)
    seen["host"] = {**seen["host"], "memory_settings": observe(host.roots)}
    return plan(seen, desired(host_memory=memory or {"transparent_huge_pages": "madvise"}))


def test_memory_alone_changes_a_host_and_restarts_nothing(host):
    found = planned(host, tuned())
    assert found["status"] == "change"
    assert [change["setting"] for change in found["host_memory"]] == ["transparent_huge_pages"]
    assert not any(intent["restart"] for intent in found["instances"])
    assert summary(found)[-1].startswith("memory: transparent_huge_pages always -> madvise")


def test_memory_as_asked_is_nothing(host):
    host.put(OURS_SYSCTL, "vm.swappiness = 60\n")
    found = planned(host, tuned(), memory={"swappiness": "60"})
    assert (found["status"], found["host_memory"]) == ("nothing", [])


def test_a_host_whose_server_is_stopped_is_left_alone(host):
    launcher = {**instance()["launcher"], "kind": "stopped"}
    found = planned(host, instance(launcher=launcher))
    assert (found["status"], found["host_memory"]) == ("stopped", [])


def test_a_container_is_as_asked_with_a_note(host):
    host.put(".dockerenv", "")
    found = planned(host, tuned())
    assert (found["status"], found["host_memory"]) == ("nothing", [])
    assert "container" in found["notes"][-1]


@pytest.mark.parametrize(
    ("memory", "reason"),
    [({"overcommit_memory": "7"}, "bad_value"), ({"transparent_huge_pages": "never"}, "not_lasting")],
)
def test_what_cannot_be_asked_for_fails_the_host_before_anything(host, memory, reason):
    (host.root / "usr/bin/systemd-tmpfiles").unlink()
    found = planned(host, tuned(), memory=memory)
    assert (found["status"], found["reason"], found["host_memory"]) == ("failed", reason, [])


def test_a_host_whose_memory_was_not_looked_at_has_no_memory_to_change():
    assert plan(observed(tuned()), desired())["host_memory"] == []
