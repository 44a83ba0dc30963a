"""Which option file is ours to write: real directories and real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import option_file
from ansible_collections.fleet.mysqltune.plugins.module_utils.mysqld_safe import ScriptError
from ansible_collections.fleet.mysqltune.plugins.module_utils.safe_option_files import (
    OWN_NAME,
    idle,
    places,
    started,
    texts,
)


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An /etc of its own, empty."""
    monkeypatch.setattr(option_file, "GLOBAL_FILES", (f"{tmp_path}/my.cnf", f"{tmp_path}/mysql.cnf"))
    return tmp_path


def place(etc: Path, *argv: str, named: str | None = None) -> str:
    runner = started("/opt/mysql/bin/mysqld_safe", ["/bin/sh", "mysqld_safe", *argv], ["mysqld"], {})
    (path,) = places([runner], named)
    return str(Path(path).relative_to(etc))


def test_without_any_file_the_main_one_is_made(etc: Path) -> None:
    assert place(etc) == "my.cnf"


def test_the_last_main_file_is_taken_where_nothing_is_included(etc: Path) -> None:
    (etc / "my.cnf").touch()
    assert place(etc) == "my.cnf"
    (etc / "mysql.cnf").touch()
    assert place(etc) == "mysql.cnf"


def test_a_file_of_our_own_goes_into_the_directory_that_is_read_last(etc: Path) -> None:
    for name in ("first.d", "last.d", "inner.d"):
        (etc / name).mkdir()
    (etc / "last.d/x.cnf").write_text(f"!includedir {etc}/inner.d\n")
    (etc / "mysql.cnf").write_text(
        f"!includedir {etc}/first.d/\n!includedir {etc}/last.d/\n!includedir {etc}/none.d\n"
    )
    assert place(etc) == f"last.d/{OWN_NAME}"


def test_the_file_that_a_running_script_was_given_is_the_only_one(etc: Path) -> None:
    (etc / "my.cnf").touch()
    (etc / "one.cnf").touch()
    assert place(etc, f"--defaults-file={etc}/one.cnf") == "one.cnf"
    with pytest.raises(ScriptError, match="no option file"):
        place(etc, "--no-defaults")


def test_a_named_file_has_to_be_one_that_is_read(etc: Path) -> None:
    (etc / "conf.d").mkdir()
    (etc / "my.cnf").write_text(f"!includedir {etc}/conf.d\n")
    for good in ("my.cnf", "mysql.cnf", "conf.d/new.cnf"):
        assert place(etc, named=str(etc / good)) == good
    for bad in ("conf.d/new.conf", "other.cnf"):
        with pytest.raises(ScriptError, match="does not read") as refused:
            place(etc, named=str(etc / bad))
        assert refused.value.reason == "launcher_mismatch"


def test_two_servers_with_files_of_their_own_get_a_block_each(etc: Path) -> None:
    runners = [
        started("/s", ["sh", "/s", f"--defaults-file={etc}/{name}.cnf"], ["mysqld"], {}) for name in "ab"
    ]
    assert places(runners, None) == [f"{etc}/a.cnf", f"{etc}/b.cnf"]


def test_a_file_under_two_names_is_one_file(etc: Path) -> None:
    (etc / "my.cnf").write_bytes(b"# \xff\r\n")
    (etc / "mysql.cnf").symlink_to("my.cnf")
    assert texts([idle("/opt/mysql/bin/mysqld_safe")]) == {f"{etc}/my.cnf": "# \udcff\r\n"}
    assert place(etc) == "my.cnf"


def test_a_my_cnf_is_looked_for_where_the_server_and_the_script_have_their_data(etc: Path) -> None:
    runner = started(f"{etc}/bin/mysqld_safe", ["sh"], ["mysqld", f"--datadir={etc}/here"], {})
    assert not runner.my_cnf_in_datadir
    (etc / "here").mkdir()
    (etc / "here/my.cnf").touch()
    assert runner.my_cnf_in_datadir
    (etc / "data").mkdir()
    (etc / "data/my.cnf").touch()
    assert idle(f"{etc}/bin/mysqld_safe").my_cnf_in_datadir
