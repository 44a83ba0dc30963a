import pytest
from ansible_collections.fleet.mysqltune.plugins.filter.tuning_lost import tuning_lost

OPENED = {"preflight_lease": {}, "preflight_observation": {"observed": {"unfinished": []}}}
UNDOING = {
    "preflight_lease": {"unreachable": True},
    "preflight_observation": {"observed": {"unfinished": [{}]}},
}


def test_a_host_that_is_still_there_is_not_lost():
    assert tuning_lost(["a", "b"], {"a": {}, "b": {}}, ["a", "b"]) == []


@pytest.mark.parametrize(
    ("variables", "lost"),
    [
        (OPENED, []),
        ({**OPENED, "preflight_lease": {"unreachable": True}}, []),
        ({**OPENED, "allocator_systemd": {"unreachable": True}}, ["a"]),
        (UNDOING, ["a"]),
        ({}, ["a"]),  # of rollback.yml, which undoes at once
    ],
)
def test_only_a_host_that_may_have_been_changed_stops_the_others(variables, lost):
    assert tuning_lost(["a", "b"], {"a": variables, "b": {}}, ["b"]) == lost
