"""A source archive is looked at on the controller, before any host is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.action.mysqld_plan import source_of
from ansible_collections.fleet.mysqltune.plugins.module_utils.source_archive import SourceError

sys.path.insert(0, str(Path(__file__).parents[1] / "module_utils"))
from archives import gperftools, write


@pytest.fixture
def archive(tmp_path):
    return write(tmp_path / "x.tar.gz", gperftools())


def wanted(archive, name="tcmalloc", **changes):
    return {
        "name": name,
        "source": {"archive": archive, "sha256": "", "host": "", "prefix": "/opt/x", **changes},
    }


def test_what_the_archive_holds_goes_into_the_plan(archive):
    found = source_of(wanted(archive, "tcmalloc_minimal"), ["db1"])
    assert (found["project"], found["version"], found["number"]) == ("gperftools", "2.16", 4)
    assert (found["archive"], found["prefix"], len(found["sha256"])) == (archive, "/opt/x", 64)


@pytest.mark.parametrize("name", ["system", "glibc", "linked"])
def test_a_name_that_needs_no_library_needs_no_archive(name):
    assert source_of(wanted("/gone.tar.gz", name), []) is None


def test_without_an_archive_nothing_is_built():
    assert source_of(wanted(""), []) is None
    assert source_of({"name": "tcmalloc", "source": None}, []) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "jemalloc"}, "which builds tcmalloc or tcmalloc_minimal and not jemalloc"),
        ({"name": "/usr/lib/libx.so"}, "and not /usr/lib/libx.so"),
        ({"sha256": "0" * 64}, "has the sha256"),
        ({"host": "builder"}, "allocator_source_host is 'builder', which is not in the inventory"),
        ({"archive": "/gone.tar.gz"}, "/gone.tar.gz is no file on the controller"),
    ],
)
def test_what_cannot_be_is_refused_and_named(archive, changes, words):
    with pytest.raises(SourceError, match=words):
        source_of(wanted(**{"archive": archive, **changes}), ["db1"])
