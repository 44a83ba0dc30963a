# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from live import BYTES, SAFE, Host, Lab

OPTION_FILES = "cat /etc/mysql/mariadb.conf.d/zz-fleet-mysqltune.cnf 2>/dev/null; cat /etc/my.cnf 2>/dev/null"


def test_malloc_lib_ends_effective_changes_nothing_twice_and_is_undone(lab: Lab, safe12: Host) -> None:
    virgin, script = safe12.tree(BYTES), safe12.sh(f"sha256sum {SAFE}")
    tuned = lab.tune("safe12", allocator_name="jemalloc", allocator_delivery="malloc_lib")
    assert tuned.rc == 0 and safe12.effective("libjemalloc"), tuned.out
    assert safe12.sh(f"sha256sum {SAFE}") == script
    assert "\n[mysqld_safe]\nmalloc-lib=/usr/lib/" in safe12.sh(OPTION_FILES)

    before = safe12.tree(), safe12.pid()
    again = lab.tune("safe12", allocator_name="jemalloc", allocator_delivery="malloc_lib")
    assert again.rc == 0 and again.counted("safe12", "changed") == 0, again.out
    assert (safe12.tree(), safe12.pid()) == before

    undone = lab.play("rollback.yml", "safe12")
    assert undone.rc == 0, undone.out
    assert safe12.tree(BYTES) == virgin and not safe12.effective("libjemalloc")
