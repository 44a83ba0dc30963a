# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps against a small model of a server: what is made, in which order, and what is left after a failure."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import sysbench_steps as steps
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.sql import SqlError
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import Settings, SysbenchError

SETTINGS = Settings("oltp_read_write", 4, 60, 0, 2, 100)
BINARY = steps.Binary("/usr/bin/sysbench", "1.0.20")


class Server:
    """Schema, marker and account as flags; ``fail`` is a word of a statement that is refused."""

    def __init__(self, datadir: Path, fail: str = "") -> None:
        self.schema = self.marked = self.account = self.binlog = False
        self.datadir, self.fail, self.tables, self.done = datadir, fail, 0, []  # type: ignore[var-annotated]

    def query(self, statement: str, _timeout: float) -> list[dict[str, str]]:
        if "AS present" in statement:
            flags = {
                "present": self.schema,
                "marked": self.marked,
                "account": self.account,
                "binlog": self.binlog,
            }
            return [{**{key: str(int(value)) for key, value in flags.items()}, "datadir": str(self.datadir)}]
        if "COUNT(*) AS n" in statement:
            return [{"n": "100"}] * statement.count("COUNT(*) AS n")
        if statement.startswith("SELECT account"):
            return [{"account": "fleet_mysqltune@localhost"}]
        if statement.startswith("SELECT table_name"):
            return [{"name": f"sbtest{number}"} for number in range(1, self.tables + 1)]
        return []

    def batch(self, statements: list[str], _timeout: float) -> list[Any]:
        return [self._execute(statement) for statement in statements]

    def _execute(self, statement: str) -> Any:
        if self.fail and self.fail in statement:
            return SqlError("statement", f"refused {self.fail}")
        self.done.append(statement)
        effects = {
            "CREATE DATABASE": ("schema", True),
            "DROP DATABASE": ("schema", False),
            "CREATE USER": ("account", True),
            "DROP USER": ("account", False),
            "INSERT INTO": ("marked", True),
        }
        for words, (name, value) in effects.items():
            if statement.startswith(words):
                setattr(self, name, value)
        self.marked = self.marked and self.schema
        return []


def filling(server: Server, rc: int = 0) -> Any:
    def run(_argv: list[str], **_: float) -> Completed:
        server.tables = 2
        return Completed(rc, 'FATAL: MySQL error: 1114 "The table is full"\n' if rc else "", "")

    return run


@pytest.fixture
def target(tmp_path: Path) -> steps.Target:
    return steps.Target("mariadb.service", "before", str(tmp_path / "root"), "r1", socket="/run/m.sock")


def test_prepare_marks_the_schema_before_the_account_exists(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert [statement.split("`")[0].split("'")[0].strip() for statement in server.done] == [
        "CREATE DATABASE",
        "CREATE TABLE",
        "INSERT INTO",
        "CREATE USER",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX ON",
    ]


def test_the_password_is_in_the_0600_file_and_in_no_command_line(
    target: steps.Target, tmp_path: Path
) -> None:
    server, seen = Server(tmp_path), []
    fill = filling(server)
    steps.prepare(
        target,
        SETTINGS,
        BINARY,
        server,
        lambda argv, timeout: seen.append(argv) or fill(argv, timeout=timeout),
    )
    text = Path(target.config).read_text()
    found = re.search(r"^mysql-password=(\S{32})$", text, re.MULTILINE)
    assert found and stat.S_IMODE(Path(target.config).stat().st_mode) == 0o600
    assert not any(found.group(1) in part for part in seen[0])
    assert "mysql-socket=/run/m.sock\n" in text


def test_the_grant_reaches_no_schema_with_a_similar_name(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert r"`fleet\_mysqltune\_sbtest`.*" in server.done[-1]


def test_a_schema_that_is_not_ours_is_refused_and_not_touched(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.schema = True
    with pytest.raises(SysbenchError, match="did not make"):
        steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert steps.cleanup(target, server) is False
    assert server.done == []


def test_an_account_that_is_not_ours_is_refused_and_not_touched(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.account = True
    with pytest.raises(SysbenchError, match="account fleet_mysqltune@localhost"):
        steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert server.done == []


def test_what_a_killed_run_left_is_removed_first(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.schema = server.marked = server.account = True
    assert steps.prepare(target, SETTINGS, BINARY, server, filling(server))["leftover_removed"] is True
    assert server.done[:2] == [
        "DROP USER 'fleet_mysqltune'@'localhost'",
        "DROP DATABASE `fleet_mysqltune_sbtest`",
    ]


@pytest.mark.parametrize("fail", ["CREATE DATABASE", "CREATE TABLE", "INSERT", "CREATE USER", "GRANT"])
def test_a_refused_statement_leaves_nothing_behind(target: steps.Target, tmp_path: Path, fail: str) -> None:
    server = Server(tmp_path, fail)
    with pytest.raises(SqlError, match="refused"):
        steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert (server.schema, server.account, Path(target.config).exists()) == (False, False, False)


def test_a_failed_prepare_says_what_sysbench_said_and_leaves_nothing(
    target: steps.Target, tmp_path: Path
) -> None:
    server = Server(tmp_path)
    with pytest.raises(SysbenchError, match="The table is full"):
        steps.prepare(target, SETTINGS, BINARY, server, filling(server, rc=1))
    assert (server.schema, server.account, Path(target.work).exists()) == (False, False, False)


def test_too_little_space_changes_nothing(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    with pytest.raises(SysbenchError, match="no disk space for sysbench"):
        steps.prepare(target, SETTINGS._replace(table_size=10**12), BINARY, server, filling(server))
    assert server.done == [] and not Path(target.work).exists()


def test_with_a_binary_log_schema_and_account_stay_out_of_it(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.binlog = True
    steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert server.done[0] == "SET SESSION sql_log_bin = 0"


def test_an_administrator_who_may_not_skip_the_binary_log_can_prepare(
    target: steps.Target, tmp_path: Path
) -> None:
    server = Server(tmp_path, fail="sql_log_bin")
    server.binlog = True
    steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert server.account


def test_cleanup_twice_finds_nothing_the_second_time(target: steps.Target, tmp_path: Path) -> None:
    server = Server(tmp_path)
    steps.prepare(target, SETTINGS, BINARY, server, filling(server))
    assert steps.cleanup(target, server) is True
    assert steps.cleanup(target, server) is False


def test_a_run_without_prepare_is_refused(target: steps.Target) -> None:
    with pytest.raises(SysbenchError, match="call the command prepare first"):
        steps.begin(steps.job(target, SETTINGS, BINARY), target, SETTINGS, None)
