# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark's own schema and account: made, recognised as ours by a marker table, and dropped again.

Order matters, so that a kill at any point leaves something that is recognised: the schema and its marker come
first and go last; the marker names the account before the account exists.
"""

from __future__ import annotations

import random
import re
import string
from typing import Any, Dict, List, NamedTuple

from .sql import SqlError
from .sysbench import SysbenchError

SCHEMA = "fleet_mysqltune_sbtest"
ACCOUNT = "fleet_mysqltune"
MARKER = "fleet_mysqltune_marker"
COMMENT = "fleet.mysqltune: benchmark schema, dropped after use"
PRIVILEGES = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX"
_NAME = re.compile(r"[A-Za-z0-9_]{1,32}$")
_DDL_TIMEOUT = 300.0


class Names(NamedTuple):
    """What the benchmark is called on the server; ``host`` as the server sees the client."""

    schema: str = SCHEMA
    account: str = ACCOUNT
    host: str = "localhost"


class State(NamedTuple):
    """What is there: ``marked`` is the schema being ours, ``account`` the account existing."""

    schema: bool
    marked: bool
    account: bool
    datadir: str
    binlog: bool
    literal_grants: bool


def checked(names: Names) -> Names:
    """The same names; SysbenchError for one that would need quoting."""
    check_name(names.schema)
    check_name(names.account)
    return names


def check_name(name: str) -> None:
    """SysbenchError for a name that would need quoting."""
    if not _NAME.match(name):
        raise SysbenchError(
            f"{name!r} cannot be the benchmark's schema or account: use letters, digits and _"
        )


def look(sql: Any, names: Names) -> State:
    """Read the state by ``sql`` (a ``sql.Sql``)."""
    rows = sql.query(
        "SELECT (SELECT COUNT(*) FROM information_schema.schemata"
        f" WHERE schema_name = '{names.schema}') AS present,"
        " (SELECT COUNT(*) FROM information_schema.tables"
        f" WHERE table_schema = '{names.schema}' AND table_name = '{MARKER}'"
        f" AND table_comment = '{COMMENT}') AS marked,"
        " (SELECT COUNT(*) FROM mysql.user"
        f" WHERE user = '{names.account}' AND host = '{names.host}') AS account,"
        " @@datadir AS datadir, @@log_bin AS binlog",
        30.0,
    )
    revokes = sql.query("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'", 30.0)
    row: Dict[str, str] = rows[0]
    literal = any(value == "ON" for found in revokes for value in found.values())
    yes = {key: row[key] not in ("0", "OFF", "") for key in ("present", "marked", "account", "binlog")}
    return State(yes["present"], yes["marked"], yes["account"], row["datadir"], yes["binlog"], literal)


def refuse_foreign(state: State, names: Names) -> None:
    """SysbenchError if the schema or the account belongs to somebody else."""
    if state.schema and not state.marked:
        raise SysbenchError(
            f"the server has a schema {names.schema} that fleet.mysqltune did not make (no marker table): "
            "it was not touched; rename it or set sysbench_schema"
        )
    if state.account and not state.marked:
        raise SysbenchError(
            f"the server has an account {names.account}@{names.host} that fleet.mysqltune did not make: "
            "it was not touched; rename it or set sysbench_account"
        )


def create(sql: Any, names: Names, password: str, state: State) -> None:
    """Make schema, marker and account; the account may do nothing outside the schema."""
    pattern = names.schema if state.literal_grants else names.schema.replace("_", "\\_")
    user = f"'{names.account}'@'{names.host}'"
    _create_schema(sql, names, state)
    _run(
        sql,
        [
            f"CREATE USER {user} IDENTIFIED BY '{password}'",
            f"GRANT {PRIVILEGES} ON `{pattern}`.* TO {user}",
        ],
        state,
    )


def _create_schema(sql: Any, names: Names, state: State) -> None:
    """Make the schema and its marker; a schema that was made and could not be marked is dropped at once."""
    marker = f"`{names.schema}`.`{MARKER}`"
    _run(sql, [f"CREATE DATABASE `{names.schema}`"], state)
    try:
        _run(
            sql,
            [
                f"CREATE TABLE {marker} (account VARCHAR(128) NOT NULL PRIMARY KEY) COMMENT='{COMMENT}'",
                f"INSERT INTO {marker} VALUES ('{names.account}@{names.host}')",
            ],
            state,
        )
    except SqlError:
        _run(sql, [f"DROP DATABASE `{names.schema}`"], state)
        raise


def drop(sql: Any, names: Names, state: State) -> bool:
    """Take away what is ours, the marker last; False if there was nothing."""
    if not state.marked:
        return False
    named = sql.query(f"SELECT account FROM `{names.schema}`.`{MARKER}`", 30.0)
    owned = any(row["account"] == f"{names.account}@{names.host}" for row in named)
    statements = [f"DROP USER '{names.account}'@'{names.host}'"] if state.account and owned else []
    statements += [f"DROP TABLE `{names.schema}`.`{table}`" for table in _tables(sql, names)]
    _run(sql, statements, state)
    _run(sql, [f"DROP DATABASE `{names.schema}`"], state)
    return True


def _tables(sql: Any, names: Names) -> List[str]:
    rows = sql.query(
        "SELECT table_name AS name FROM information_schema.tables"
        f" WHERE table_schema = '{names.schema}' AND table_type = 'BASE TABLE' AND table_name <> '{MARKER}'",
        30.0,
    )
    return sorted(row["name"] for row in rows if re.match(r"\w+$", row["name"]))


def row_counts(sql: Any, names: Names, tables: int) -> List[int]:
    """The rows of ``sbtest1`` to ``sbtest<tables>``, counted."""
    parts = [f"SELECT COUNT(*) AS n FROM `{names.schema}`.`sbtest{i}`" for i in range(1, tables + 1)]
    return [int(row["n"]) for row in sql.query(" UNION ALL ".join(parts), _DDL_TIMEOUT)]


def _run(sql: Any, statements: List[str], state: State) -> None:
    """All in one session, outside the binary log where the account may do that; the first error is raised."""
    silent = ["SET SESSION sql_log_bin = 0"] if state.binlog else []
    answers = sql.batch([*silent, *statements], _DDL_TIMEOUT)
    for answer in answers[len(silent) :]:
        if isinstance(answer, SqlError):
            raise answer


def new_password() -> str:
    """32 characters that satisfy the servers' usual rules and need no quoting anywhere."""
    source = random.SystemRandom()
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_.+")
    picked = [source.choice(kind) for kind in kinds] + [source.choice("".join(kinds)) for _ in range(28)]
    source.shuffle(picked)
    return "".join(picked)
