from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.tunables import problem, tunables, words


def test_only_the_allocators_variables_are_shown():
    environment = {"TCMALLOC_SAMPLE": "1", "PASSWORD": "x", "MALLOC_CONF": "a:1", "XMALLOC_Y": "2"}
    assert tunables(environment) == {"MALLOC_CONF": "a:1", "TCMALLOC_SAMPLE": "1"}
    assert words(environment)[:15] == "MALLOC_CONF=a:1"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MALLOC_CONF", "background_thread:true,narenas:4", None),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0", None),
        ("LD_PRELOAD", "/x.so", "'LD_PRELOAD' is no variable of an allocator"),
        ("MALLOC_CONF", "a b;$(c)", "has ' ' '$' '(' ')' ';'"),
        ("MALLOC_CONF", "a\n", "which not every launcher can hand over"),
    ],
)
def test_what_cannot_be_handed_over_is_said(name, value, said):
    found = problem(name, value)
    assert found is None if said is None else said in found
