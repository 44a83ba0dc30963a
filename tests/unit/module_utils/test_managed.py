# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import malloc_lib
from ansible_collections.fleet.mysqltune.plugins.module_utils import mysqld_safe as safe
from ansible_collections.fleet.mysqltune.plugins.module_utils.journal import journal_for
from ansible_collections.fleet.mysqltune.plugins.module_utils.managed import concerns, managed_files
from safe_scripts import fixture_text

LIBRARY = "/usr/lib/libtcmalloc.so.4"
ENV = b"LD_PRELOAD=/usr/lib/libtcmalloc.so.4\nAPI_TOKEN=hush\n"


@pytest.fixture
def root(tmp_path: Path) -> str:
    root, script = str(tmp_path / "state"), tmp_path / "mysqld_safe"
    script.write_text(fixture_text("family-a.sh"))
    with journal_for("run-1", root) as journal:
        journal.write(str(tmp_path / "mariadb.service.env"), ENV)
        journal.write(str(script), safe.patched(script.read_text(), LIBRARY).encode(), kind="mysqld_safe")
        journal.close("committed")
    return root


def states(root: str) -> dict[str, tuple[str, object]]:
    return {os.path.basename(one["path"]): (one["state"], one["block"]) for one in managed_files(root)}


def test_what_was_left_is_known_as_such(root: str) -> None:
    assert states(root) == {"mariadb.service.env": ("as_left", None), "mysqld_safe": ("as_left", True)}


def test_the_content_of_our_own_files_is_shown_without_secrets_and_that_of_others_is_not(root: str) -> None:
    ours, script = managed_files(root)
    assert LIBRARY in ours["content"] and "hush" not in ours["content"]
    assert script["content"] is None


def test_a_packaged_script_has_no_block_any_more(root: str, tmp_path: Path) -> None:
    (tmp_path / "mysqld_safe").write_text(fixture_text("family-a.sh"))
    (tmp_path / "mariadb.service.env").unlink()
    assert states(root) == {"mariadb.service.env": ("gone", None), "mysqld_safe": ("changed", False)}


def test_a_script_that_is_none_any_more_and_a_directory_in_place_of_a_file(root: str, tmp_path: Path) -> None:
    (tmp_path / "mysqld_safe").write_text("something else\n")
    (tmp_path / "mariadb.service.env").unlink()
    (tmp_path / "mariadb.service.env").mkdir()
    assert states(root) == {"mariadb.service.env": ("unreadable", None), "mysqld_safe": ("changed", False)}


def test_an_option_file_in_which_our_block_is_gone_is_told(root: str, tmp_path: Path) -> None:
    options = tmp_path / "my.cnf"
    options.write_text("[client]\npassword=hush\n")
    with journal_for("run-2", root) as journal:
        text = malloc_lib.with_block(options.read_text(), LIBRARY)
        journal.write(str(options), text.encode(), kind="option_file")
        journal.close("committed")
    assert states(root)["my.cnf"] == ("as_left", True)
    options.write_text("[client]\n")
    assert states(root)["my.cnf"] == ("changed", False)
    options.unlink()
    assert states(root)["my.cnf"] == ("gone", False)
    [record] = [one for one in managed_files(root) if one["path"] == str(options)]
    assert record["content"] is None
    assert concerns(record, {"unit": None, "script": "/usr/bin/mysqld_safe"})
    assert not concerns(record, {"unit": "my.service", "script": None})


@pytest.mark.parametrize(
    ("path", "mine"),
    [
        ("/etc/systemd/system/mysql.service.d/zz-fleet-mysqltune.conf", True),
        ("/etc/fleet-mysqltune/mysql.service.env", True),
        ("/etc/systemd/system/other.service.d/zz-fleet-mysqltune.conf", False),
        ("/etc/sysctl.d/60-fleet-mysqltune.conf", False),
    ],
)
def test_a_file_belongs_to_the_server_of_its_unit(path: str, mine: bool) -> None:
    launcher = {"unit": "mysql.service", "script": None}
    assert concerns({"path": path, "kind": None}, launcher) is mine
