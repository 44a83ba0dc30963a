"""The users' variables, checked on the controller before any host is asked."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.plugin_utils.values import problems


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"allocator_environment": {"MALLOC_CONF": "narenas:4", "MALLOC_ARENA_MAX": 2}}, []),
        ({"allocator_environment": {"LD_PRELOAD": "/x.so"}}, ["'LD_PRELOAD' is no variable of an allocator"]),
        ({"allocator_environment": {"MALLOC_CONF": "a b"}}, ["the value of MALLOC_CONF has ' '"]),
        (
            {"allocator_environment": {"MALLOC_CONF": True}},
            ["MALLOC_CONF is true", "Write the value as a text"],
        ),
        ({"allocator_environment": {"MALLOC_CONF": ["a"]}}, ["MALLOC_CONF is ['a']"]),
        (
            {"allocator_environment": "MALLOC_CONF"},
            ["allocator_environment is 'MALLOC_CONF'", "a dictionary"],
        ),
        ({"allocator_delivery": "smf"}, ["allocator_delivery is 'smf'. Use auto or systemd or mysqld_safe"]),
        ({"sysbench_threads": 5000}, ["sysbench_threads is 5000. Use a whole number from 0 to 4096"]),
        ({"tuning_include_primaries": "maybe"}, ["tuning_include_primaries is 'maybe'. Use true or false"]),
        ({"no_variable_of_ours": object()}, []),
    ],
)
def test_a_wrong_value_is_named_with_what_is_right(variables, said):
    found = " ".join(problems(variables))
    assert bool(found) is bool(said)
    assert not [words for words in said if words not in found], found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"allocator_source": "files/x.tar.gz"},
            "allocator_source is 'files/x.tar.gz'. Use an absolute path.",
        ),
        ({"allocator_source_prefix": "opt/x"}, "Use an absolute path"),
        ({"allocator_source_prefix": "/"}, "'/' is no directory of our own"),
        ({"allocator_source_prefix": "/opt"}, "'/opt' is no directory of our own"),
        ({"allocator_source_prefix": "/opt/a b"}, "'/opt/a b' is no directory of our own"),
        ({"allocator_source_prefix": "/opt/x/../.."}, "is no directory of our own"),
        ({"allocator_source_sha256": "abc"}, "'abc' is no SHA-256"),
        ({"allocator_source_install": "rpm"}, "Use prefix or deb"),
        ({"allocator_source_build_packages": ["gcc"]}, "Use a dictionary"),
    ],
)
def test_a_wrong_value_is_named_with_what_to_use(values, words):
    [problem] = problems(values)
    assert words in problem


def test_the_defaults_and_sound_values_have_no_problem():
    assert not problems(
        {
            "allocator_source": "",
            "allocator_source_sha256": "AB" * 32,
            "allocator_source_prefix": "/opt/fleet-mysqltune",
            "allocator_source_install": "deb",
        }
    )
