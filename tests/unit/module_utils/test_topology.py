from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.sql import Sql, SqlError
from ansible_collections.fleet.mysqltune.plugins.module_utils.topology import STATEMENTS, understand, unknown

CLIENT = Path(__file__).parents[2] / "fixtures/client"
SYNTAX = SqlError("statement", "ERROR 1064: You have an error in your SQL syntax")
DENIED = SqlError("access_denied", "ERROR 1227: Access denied; you need SUPER")


def captured(name):
    """Give the answers that a real server gave; the first one is not about the topology."""
    out, err = ((CLIENT / f"{name}.{kind}.txt").read_text() for kind in ("out", "err"))
    sql = Sql("client", run=lambda *_args, **_more: Completed(1, out, err))
    return dict(zip(STATEMENTS, sql.batch(["own", *STATEMENTS.values()])[1:], strict=True))


def answers(**changes):
    """Give the answers of a standalone MySQL 8.4, with changes."""
    plain = {
        "variables": [],
        "status": [],
        "all_sources": SYNTAX,
        "source": [],
        "old_source": SYNTAX,
        "dumps": [],
        "process": [{"seen": "5"}],
        "replicas": [],
        "old_replicas": SYNTAX,
        "group": [],
    }
    assert plain.keys() == STATEMENTS.keys()
    return {**plain, **changes}


def values(**named):
    return [{"Variable_name": name, "Value": value} for name, value in named.items()]


GALERA = values(wsrep_on="ON", wsrep_provider="/usr/lib/galera/libgalera_smm.so")
MEMBER = {"host": "db1", "port": "3306", "state": "ONLINE"}


@pytest.mark.parametrize(
    ("name", "role", "replica", "peers"),
    [
        ("mariadb-10.11-debian-12-primary", "primary", False, ["deb13:3306"]),
        ("mariadb-11.8-debian-13-replica", "replica", True, ["10.89.2.2:3306"]),
        ("mysql-9.7-debian-sid", "standalone", False, []),
    ],
)
def test_real_servers_are_what_they_are(name, role, replica, peers):
    assert understand(captured(name)) == {"role": role, "replica": replica, "peers": peers, "error": None}


def test_a_connected_dump_thread_makes_a_primary_though_no_replica_registered_a_name():
    found = understand(answers(dumps=[{"host": "10.0.0.7:40112"}, {"host": "10.0.0.8:40113"}]))
    assert (found["role"], found["peers"]) == ("primary", ["10.0.0.7", "10.0.0.8"])


def test_an_unnamed_replica_beside_a_named_one_is_not_lost():
    found = understand(
        answers(
            dumps=[{"host": "10.0.0.7:1"}, {"host": "10.0.0.8:2"}],
            replicas=[
                {"Host": "db7", "Port": "3306", "Server_Id": "7"},
                {"Host": "", "Port": "3306", "Server_Id": "8"},
            ],
        )
    )
    assert found["peers"] == ["10.0.0.7", "10.0.0.8"]


def test_a_registered_replica_makes_a_primary_though_its_thread_is_gone():
    found = understand(answers(replicas=[{"Host": "", "Port": "3306", "Server_Id": "8"}]))
    assert (found["role"], found["peers"]) == ("primary", ["server id 8"])


def test_a_replica_that_has_replicas_is_a_primary():
    found = understand(answers(source=[{"Source_Host": "a", "Source_Port": "1"}], dumps=[{"host": "b:2"}]))
    assert found == {"role": "primary", "replica": True, "peers": ["a:1", "b"], "error": None}


def test_old_servers_know_only_the_old_words():
    old = answers(
        source=SYNTAX,
        old_source=[{"Master_Host": "a", "Master_Port": "1"}],
        replicas=SYNTAX,
        old_replicas=[{"Host": "c", "Port": "3", "Server_id": "3"}],
        group=SqlError("statement", "ERROR 1146: no such table"),
    )
    assert understand(old) == {"role": "primary", "replica": True, "peers": ["a:1", "c:3"], "error": None}


def test_every_source_of_a_multi_source_replica_is_a_peer():
    found = understand(answers(all_sources=[{"Master_Host": "a", "Master_Port": "1"}, {"Master_Host": "b"}]))
    assert found["peers"] == ["a:1", "b:?"]


def test_a_galera_node_is_a_member_whatever_else_it_is():
    status = values(wsrep_incoming_addresses="db1:3306,AUTO,db2:3306")
    found = understand(answers(variables=GALERA, status=status, dumps=[{"host": "x:1"}]))
    assert (found["role"], found["peers"]) == ("galera", ["db1:3306", "db2:3306", "x"])


@pytest.mark.parametrize(
    "variables",
    [
        values(wsrep_on="OFF", wsrep_provider="/usr/lib/x.so"),
        values(wsrep_on="ON", wsrep_provider="none"),
        DENIED,
    ],
)
def test_a_server_that_merely_could_do_galera_is_none(variables):
    assert understand(answers(variables=variables))["role"] == "standalone"


def test_group_members_are_found_and_an_idle_plugin_is_no_group():
    offline = {"host": "", "port": "", "state": "OFFLINE"}
    assert understand(answers(group=[MEMBER]))["role"] == "group_replication"
    assert understand(answers(group=[offline]))["role"] == "standalone"


NO_SELECT = SqlError(
    "access_denied",
    "ERROR 1142: SELECT command denied to user 'a'@'localhost' for table 'replication_group_members'",
)


def test_a_group_that_the_account_must_not_see_leaves_the_role_unknown():
    found = understand(answers(group=NO_SELECT))
    assert found["role"] == "unknown"
    assert "SELECT privilege on performance_schema.replication_group_members" in found["error"]


def test_mariadb_has_no_groups_to_hide():
    mariadb = answers(all_sources=[], source=SYNTAX, old_source=[], group=NO_SELECT)
    assert understand(mariadb)["role"] == "standalone"


def test_a_galera_node_needs_no_look_at_groups():
    assert understand(answers(variables=GALERA, group=NO_SELECT))["role"] == "galera"


def test_an_account_that_may_not_ask_leaves_the_role_unknown():
    found = understand(answers(all_sources=DENIED, source=DENIED, old_source=DENIED))
    assert found["role"] == "unknown"
    assert "1227" in found["error"]
    assert understand(answers(all_sources=DENIED, source=SYNTAX, old_source=DENIED))["role"] == "unknown"


@pytest.mark.parametrize("process", [DENIED, [{"seen": "0"}], []])
def test_without_the_process_privilege_replicas_could_hide_so_the_role_is_unknown(process):
    found = understand(answers(process=process))
    assert found["role"] == "unknown"
    assert "PROCESS" in found["error"]


def test_an_unreachable_server_says_why():
    assert unknown("no socket") == {"role": "unknown", "replica": False, "peers": [], "error": "no socket"}
