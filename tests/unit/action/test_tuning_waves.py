import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.mysqltune.plugins.action.tuning_waves import batch_sizes


@pytest.mark.parametrize(
    ("hosts", "sizes", "waves"),
    [
        (0, ["1"], []),
        (1, ["1", "100%"], [1]),
        (5, ["1", "100%"], [1, 4]),
        (5, ["2"], [2, 2, 1]),
        (10, ["10%", "50%"], [1, 5, 4]),
        (3, ["1%"], [1, 1, 1]),
    ],
)
def test_the_last_size_repeats_until_every_host_has_its_wave(hosts, sizes, waves):
    assert batch_sizes(hosts, sizes) == waves
    assert sum(batch_sizes(hosts, sizes)) == hosts


@pytest.mark.parametrize("size", ["0", "-1", "x", "0%", "101%", "", "1.5"])
def test_a_wrong_size_is_named(size):
    with pytest.raises(AnsibleActionFail, match=f"'{size}' is no size of a wave"):
        batch_sizes(3, [size])


def test_no_size_at_all_is_refused():
    with pytest.raises(AnsibleActionFail, match="is empty"):
        batch_sizes(3, [])
