from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import option_file
from ansible_collections.fleet.mysqltune.plugins.module_utils.option_file import (
    Option,
    arguments,
    expand,
    files,
    includes,
    masked,
    options,
    parse,
    redacted,
    sections,
)

CAPTURED = Path(__file__).parents[2] / "fixtures/option_file"


def test_the_distributions_file_is_read():
    found = parse((CAPTURED / "50-server-mariadb-10.11-debian-12.cnf").read_text())
    assert Option("mysqld", "bind-address", "127.0.0.1") in found
    assert Option("mysqld", "pid-file", "/run/mysqld/mysqld.pid") in found
    assert not [option for option in found if option.name.startswith("#")]


def test_the_distributions_file_includes_two_directories():
    text = (CAPTURED / "my-mariadb-10.11-debian-12.cnf").read_text()
    assert includes(text) == ["!includedir /etc/mysql/conf.d/", "!includedir /etc/mysql/mariadb.conf.d/"]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("key_buffer_size = 16M", "key-buffer-size", "16M"),
        ("skip-networking", "skip-networking", None),
        ("loose_innodb_x=1", "innodb-x", "1"),
        ("socket='/tmp/my sock' # mine", "socket", "/tmp/my sock"),
        ('init_connect="SET x = 1 # no comment"', "init-connect", "SET x = 1 # no comment"),
        ("datadir = /data\t# here", "datadir", "/data"),
        (r"basedir=C:\\my\sql", "basedir", "C:\\my ql"),
        ("empty=", "empty", ""),
        ("A = b=c", "a", "b=c"),
    ],
)
def test_names_have_one_spelling_and_values_lose_quotes_and_comments(line, name, value):
    assert parse(f"[mysqld]\n{line}\n") == [Option("mysqld", name, value)]


def test_comments_and_directives_are_no_options():
    assert parse("# a\n; b\n[mysqld]\n!includedir /x\n") == []


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """An /etc of its own with one include of each kind, and a file that includes itself."""
    (tmp_path / "conf.d").mkdir()
    main = tmp_path / "my.cnf"
    more = tmp_path / "conf.d/more.cnf"
    main.write_text(f"[mysqld]\nport=1\n!includedir {tmp_path}/conf.d\n!include {tmp_path}/absent.cnf\n")
    more.write_text(f"[mysqld]\nport=2\n[mariadb-10.11]\nsocket=/s\n!include {more}\n")
    (tmp_path / "conf.d/ignored.bak").write_text("[mysqld]\nport=3\n")
    monkeypatch.setattr(option_file, "GLOBAL_FILES", (str(main), "/absent/my.cnf"))
    return tmp_path


def test_files_are_listed_in_the_order_of_reading_and_each_once(tree):
    assert files(["mysqld"]) == [str(tree / "my.cnf"), str(tree / "conf.d/more.cnf")]


def test_a_file_that_includes_itself_ends(tree):
    assert len(list(expand(str(tree / "my.cnf")))) < 20


@pytest.mark.usefixtures("tree")
def test_later_files_win_and_sections_of_the_series_count():
    paths = files(["mysqld"])
    assert options(paths, sections()) == {"port": "2"}
    assert options(paths, sections("10.11.19")) == {"port": "2", "socket": "/s"}


@pytest.mark.usefixtures("tree")
def test_no_defaults_means_no_files():
    assert files(["mysqld", "--no-defaults"]) == []


def test_a_defaults_file_is_the_only_one(tree):
    only = tree / "only.cnf"
    only.touch()
    assert files(["mysqld", f"--defaults-file={only}"]) == [str(only)]


def test_extra_home_and_basedir_files_are_read_too(tree):
    for name in ("extra.cnf", ".my.cnf", "base/etc/my.cnf", "home/my.cnf"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    argv = ["mysqld", f"--defaults-extra-file={tree}/extra.cnf"]
    environment = {"HOME": str(tree), "MYSQL_HOME": str(tree / "home")}
    names = [path[len(str(tree)) + 1 :] for path in files(argv, str(tree / "base"), environment)]
    assert names == ["my.cnf", "conf.d/more.cnf", "base/etc/my.cnf", "home/my.cnf", "extra.cnf", ".my.cnf"]


def test_the_last_argument_of_a_name_counts():
    assert arguments(["mysqld", "--port=1", "--skip_name_resolve", "--port=2", "-x"]) == {
        "port": "2",
        "skip-name-resolve": None,
    }


def test_a_suffix_adds_sections():
    assert "mysqld1" in sections(suffix="1")


def test_secrets_in_a_command_line_are_hidden():
    argv = [
        "mysqld",
        "--wsrep-sst-auth=u:geheim",
        "--master_password=geheim",
        "--ssl-passphrase",
        "geheim",
        "--wsrep-provider-options=a=1;socket.ssl_password=geheim",
        "--port=3306",
    ]
    shown = redacted(argv)
    assert "geheim" not in " ".join(shown)
    assert shown[-1] == "--port=3306"
    assert len(shown) == len(argv)


def test_secrets_are_hidden_in_a_text_and_everything_else_is_kept() -> None:
    text = "[client]\nuser = me\npassword = hunter2\n#old_password=hunter1\n[mysqld]\nwsrep_sst_auth=sst:hunter3\nx\n"
    shown = masked(text)
    assert "hunter" not in shown
    assert [line.split("=")[0] for line in shown.split("\n")] == [
        line.split("=")[0] for line in text.split("\n")
    ]
    assert "user = me" in shown
