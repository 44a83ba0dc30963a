from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.sql import (
    Sql,
    SqlError,
    find_client,
    parse,
    script,
    split,
)

CLIENT = Path(__file__).parents[2] / "fixtures/client"


class Answering:
    """A runner that records and answers."""

    def __init__(self, rc=0, out="", err=""):
        self.done = Completed(rc, out, err)
        self.calls = []

    def __call__(self, argv, stdin=None, **_more):
        self.calls.append((argv, stdin))
        return self.done


def captured(name, rc=0):
    return Answering(rc, (CLIENT / f"{name}.out.txt").read_text(), (CLIENT / f"{name}.err.txt").read_text())


def test_statements_go_through_stdin_and_the_command_line_has_no_secret():
    run = Answering(out="fleet_mysqltune_mark\n0\n")
    Sql("/usr/bin/mariadb", "/run/x.sock", "/root/my.cnf", run=run).query("SELECT 'secret'")
    argv, stdin = run.calls[0]
    assert argv[:2] == ["/usr/bin/mariadb", "--defaults-file=/root/my.cnf"]
    assert "--socket=/run/x.sock" in argv
    assert not [word for word in argv if "secret" in word or "passw" in word]
    assert "SELECT 'secret';" in stdin


def test_without_a_file_the_client_reads_its_usual_ones():
    argv = Sql("/usr/bin/mysql", "/run/x.sock").argv(5)
    assert not [word for word in argv if word.startswith(("--defaults", "--user"))]
    assert "--user=dba" in Sql("/usr/bin/mysql", user="dba").argv(5)


def test_a_batch_of_a_real_client_is_split_into_the_statements_answers():
    answers = Sql("m", run=captured("mariadb-10.11-debian-12-primary", rc=1)).batch(["x"] * 11)
    assert answers[0][0]["version"] == "10.11.19-MariaDB-0+deb12u1-log"
    assert answers[3] == []
    assert answers[6] == [{"host": "10.89.2.3:46292"}]
    assert isinstance(answers[10], SqlError)
    assert answers[10].kind == "statement"


def test_one_failing_statement_does_not_spoil_the_others():
    answers = Sql("m", run=captured("mysql-9.7-debian-sid", rc=1)).batch(["x"] * 11)
    failed = [number for number, answer in enumerate(answers) if isinstance(answer, SqlError)]
    assert failed == [3, 5, 8, 9]
    assert "ALL SLAVES STATUS" in answers[3].message


@pytest.mark.parametrize(
    ("rc", "err", "kind"),
    [
        (
            1,
            "ERROR 1045 (28000): Access denied for user 'a'@'localhost' (using password: YES)",
            "access_denied",
        ),
        (1, "ERROR 1698 (28000): Access denied for user 'root'@'localhost'", "access_denied"),
        (1, "ERROR 2002 (HY000): Can't connect to local server through socket '/x' (2)", "cannot_connect"),
        (1, "ERROR 2013 (HY000) at line 3: Lost connection to server during query", "cannot_connect"),
        (124, "mariadb: no end within 5 s", "timeout"),
        (127, "/usr/bin/mariadb: No such file or directory", "no_client"),
        (7, "mariadb: unknown option '--nonsense'", "cannot_connect"),
        (1, "", "cannot_connect"),
    ],
)
def test_a_server_that_is_not_reached_raises_with_the_kind_and_what_was_tried(rc, err, kind):
    sql = Sql("/usr/bin/mariadb", "/run/x.sock", run=Answering(rc, err=err))
    with pytest.raises(
        SqlError, match=r"^/usr/bin/mariadb through socket /run/x.sock with socket auth"
    ) as caught:
        sql.batch(["SELECT 1"], timeout=5)
    assert caught.value.kind == kind


def test_a_query_raises_its_own_error():
    run = Answering(
        1, "fleet_mysqltune_mark\n0\n", "ERROR 1146 (42S02) at line 1: Table 'a.b' doesn't exist\n"
    )
    with pytest.raises(SqlError, match="1146") as caught:
        Sql("m", run=run).query("SELECT * FROM a.b")
    assert caught.value.kind == "statement"


def test_a_missing_client_is_said():
    with pytest.raises(SqlError, match="Install one") as caught:
        Sql(None).query("SELECT 1")
    assert caught.value.kind == "no_client"


@pytest.mark.parametrize("code", ["1142 (42000)", "1143 (42000)"])
def test_a_table_or_column_that_the_account_may_not_read_is_denied(code):
    run = Answering(
        1, "fleet_mysqltune_mark\n0\n", f"ERROR {code} at line 1: SELECT command denied to user\n"
    )
    assert Sql("m", run=run).batch(["SELECT * FROM a.b"])[0].kind == "access_denied"


def test_tabs_newlines_and_backslashes_in_values_survive():
    assert parse(["a\tb", r"x\ty" + "\t" + r"p\nq\\n\0"]) == [{"a": "x\ty", "b": "p\nq\\n\0"}]


def test_statements_stay_on_one_line_each():
    assert script(["SELECT 1;\n", "SELECT\n2"]).splitlines()[::2] == ["SELECT 1;", "SELECT 2;"]


def test_an_answer_that_broke_off_is_empty_for_the_rest():
    assert split("a\n1\n", 3) == [[{"a": "1"}], [], []]


def test_the_client_beside_the_daemon_comes_first(tmp_path):
    for path in ("sbin/mysqld", "bin/mysql", "other/mariadb"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch(mode=0o755)
    daemon, other = str(tmp_path / "sbin/mysqld"), str(tmp_path / "other")
    assert find_client(daemon, other).path == str(tmp_path / "bin/mysql")
    (tmp_path / "bin/mysql").unlink()
    assert find_client(daemon, other).path == str(tmp_path / "other/mariadb")
    nothing = find_client(daemon, str(tmp_path / "empty"))
    assert nothing.path is None
    assert str(tmp_path / "sbin/mariadb") in nothing.tried
