# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from ansible_collections.fleet.mysqltune.plugins.module_utils.sysbench import (
    Settings,
    SysbenchError,
    arguments,
    check_extra,
    check_settings,
    check_space,
    config_line,
    find_binary,
    outer_timeout,
    slug,
    space_needed,
    write_private,
)

SETTINGS = Settings("oltp_read_write", 4, 60, 0, 4, 25000)


def answering(text: str):  # type: ignore[no-untyped-def]
    return lambda _argv, **_: Completed(0, text, "")


def test_any_1_0_is_accepted() -> None:
    assert find_binary("sh", answering("sysbench 1.0.20\n"))[1] == "1.0.20"


@pytest.mark.parametrize(
    "said", ["sysbench 0.4.12\n", "sysbench 0.5\n", "sysbench 1.1.0-bd4b418\n", "what?\n"]
)
def test_another_generation_is_refused_with_its_version(said: str) -> None:
    with pytest.raises(SysbenchError, match=r"sysbench (0\.4\.12|0\.5|1\.1\.0|unknown); supported is 1\.0"):
        find_binary("sh", answering(said))


def test_a_missing_binary_names_the_package() -> None:
    with pytest.raises(SysbenchError, match=r"no-such-sysbench is not installed.*package sysbench"):
        find_binary("no-such-sysbench", answering(""))


def test_the_command_line_is_what_a_user_would_type() -> None:
    assert " ".join(arguments(SETTINGS, "run", "/etc/s.cnf")) == (
        "sysbench oltp_read_write --config-file=/etc/s.cnf --threads=4 --tables=4 --table-size=25000 --time=60 "
        "--events=0 --report-interval=1 --forced-shutdown=10 --rand-type=uniform --rand-seed=1 run"
    )


def test_a_random_type_that_is_named_is_not_overridden() -> None:
    line = arguments(SETTINGS._replace(extra=("--rand-type=pareto",), seed=0), "run", "c")
    assert [part for part in line if "rand" in part] == ["--rand-type=pareto"]


def test_the_outer_timeout_is_duration_grace_and_a_minute() -> None:
    assert outer_timeout(SETTINGS) == 130


@pytest.mark.parametrize(
    "option", ["--mysql-password=x", "--threads=3", "--config-file=x", "--mysql_user=x", "--debug"]
)
def test_an_option_of_the_toolkit_itself_is_refused(option: str) -> None:
    with pytest.raises(SysbenchError, match="set by the toolkit"):
        check_extra(option)


@pytest.mark.parametrize("option", ["run", "--a b", "-x", "--skip-trx;reboot x", "--mysql-ignore-errors=all"])
def test_an_option_that_would_do_harm_is_refused(option: str) -> None:
    with pytest.raises(SysbenchError):
        check_extra(option)


@pytest.mark.parametrize("option", ["--skip-trx", "--db-ps-mode=disable", "--mysql-ignore-errors=1213,1020"])
def test_an_option_of_the_user_is_passed_on(option: str) -> None:
    check_extra(option)


@pytest.mark.parametrize("change", [{"threads": 0}, {"tables": 0}, {"duration": 0}, {"test": "x;y"}])
def test_a_setting_that_cannot_work_is_named(change: dict[str, object]) -> None:
    with pytest.raises(SysbenchError, match=next(iter(change))):
        check_settings(SETTINGS._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a=b'c\"d\\e$f#g", "k=a=b'c\"d\\e$f#g"),
        ("a b", 'k="a b"'),
        ('a,"b', "k='a,\"b'"),
        ("#a", 'k="#a"'),
        ("'a", 'k="\'a"'),
    ],
)
def test_a_value_is_quoted_as_sysbench_reads_it(value: str, line: str) -> None:
    assert config_line("k", value) == line


@pytest.mark.parametrize("value", ["a b'\"", "x" * 300, "a\nb"])
def test_a_value_that_the_config_file_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(SysbenchError, match="cannot hold"):
        config_line("k", value)


def test_the_private_file_is_0600_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        write_private(str(path), "new")
    finally:
        os.umask(before)
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (0o600, "new")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("keep")
    (tmp_path / "c").symlink_to(tmp_path / "target")
    write_private(str(tmp_path / "c"), "new")
    assert (tmp_path / "target").read_text() == "keep"


def test_too_little_space_is_refused_with_the_figures(tmp_path: Path) -> None:
    with pytest.raises(
        SysbenchError, match=r"no disk space for sysbench: 4 tables of 9000000000 rows need about .* MiB"
    ):
        check_space(SETTINGS._replace(table_size=9_000_000_000), str(tmp_path), False)


def test_a_binary_log_needs_more_space() -> None:
    assert space_needed(4, 25000, True) > 2 * space_needed(4, 25000, False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mariadb.service", "mariadb.service"),
        ("/srv/db 1", "srv-db-1"),
        ("../..", "instance"),
        ("mysqld@a", "mysqld@a"),
    ],
)
def test_a_slug_is_one_harmless_file_name(name: str, expected: str) -> None:
    assert slug(name) == expected
