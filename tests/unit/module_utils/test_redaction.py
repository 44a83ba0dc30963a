from __future__ import annotations

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.redaction import redacted

M = "********"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("DB_PASSWORD=hunter2\nNEXT=1\n", f"DB_PASSWORD={M}\nNEXT=1\n"),
        ('API_TOKEN="hun\\"ter 2"\nNEXT=1\n', f"API_TOKEN={M}\nNEXT=1\n"),
        ("export MYSQL_PWD='hunter 2'; x", f"export MYSQL_PWD={M}; x"),
        ("client_secret=hunter\\ 2 --x", f"client_secret={M} --x"),
        ("mysqladmin --password=hunter2 ping", f"mysqladmin --password={M} ping"),
        ('mysqladmin "--password=hunter 2" ping', f'mysqladmin "--password={M}" ping'),
        ("tool --auth-token 'hunter 2' --x", f"tool --auth-token {M} --x"),
        ("tool --my-passwd hunter2\n", f"tool --my-passwd {M}\n"),
    ],
)
def test_values_of_secrets_are_masked(text, shown):
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    ["LD_PRELOAD=/a.so\n", "# the password is elsewhere\n", "tool --ask-password --x\n", "PASSWORD=\nA=1\n"],
)
def test_everything_else_is_shown(text):
    assert redacted(text) == text
