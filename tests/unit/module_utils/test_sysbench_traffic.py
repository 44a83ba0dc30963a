import itertools

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import SysbenchError
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench_traffic import (
    OWN,
    WINDOW,
    refuse_traffic,
)


class Server:
    """Answers ``SHOW GLOBAL STATUS LIKE 'Questions'`` with rising figures."""

    def __init__(self, *figures):
        self.figures = iter(figures)

    def query(self, statement):
        assert "Questions" in statement
        return [{"Variable_name": "Questions", "Value": str(next(self.figures))}]


def check(server, limit):
    ticks = itertools.count(step=WINDOW)
    refuse_traffic(server, limit, sleep=lambda _: None, clock=lambda: next(ticks))


def test_a_server_that_only_we_ask_is_quiet():
    check(Server(1000, 1000 + OWN), limit=0)


def test_traffic_up_to_the_limit_is_tolerated_and_above_it_is_refused_with_the_figure():
    check(Server(0, OWN + 20), limit=10)
    with pytest.raises(SysbenchError, match="others send 11 statements/s"):
        check(Server(0, OWN + 22), limit=10)


def test_counters_that_were_reset_meanwhile_are_no_traffic():
    check(Server(5000, 1), limit=10)
