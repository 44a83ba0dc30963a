# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that needs a long crash recovery: it is waited for while it makes progress, and no longer.

Simulated: the unit kills its server instead of stopping it, and the library slows reads and writes down.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import BYTES, PID, Host, Lab, Survivors
from spoiled import LIBRARY, put_library, result

UNIT = "mariadb"
DROP_IN = f"/etc/systemd/system/{UNIT}.service.d/kill.conf"
TIMEOUT = 4

# Redo for some hundred MB of pages that are in memory only.
DIRTY = """
SET GLOBAL innodb_log_file_size = 1 << 30, innodb_buffer_pool_size = 384 << 20, innodb_io_capacity = 100,
  innodb_max_dirty_pages_pct = 99.9, innodb_max_dirty_pages_pct_lwm = 0;
CREATE OR REPLACE TABLE survivors.big (id int primary key, v char(200) charset utf8mb3) ENGINE=InnoDB;
INSERT INTO survivors.big SELECT seq, repeat(md5(seq), 6) FROM mysql.seq_1_to_600000;
UPDATE survivors.big SET v = repeat(md5(v), 6);
"""

# Stop the server that comes up with the bad library as soon as its recovery has begun.
FREEZE = f"""
begin=$(date +@%s); echo watching
for i in $(seq 600); do
  ! journalctl -q -u {UNIT} --since=$begin -o cat | grep -q 'Starting crash recovery' || break
  sleep 0.1
done
[ "$i" -lt 600 ] && kill -STOP $({PID}) && echo frozen
"""


@pytest.fixture
def dirty(deb12: Host) -> Iterator[Host]:
    """A server whose next start is a long crash recovery."""
    deb12.sh(f"mkdir -p {DROP_IN.rpartition('/')[0]}")
    deb12.put(DROP_IN, "[Service]\nKillSignal=SIGKILL\n")
    deb12.sh("systemctl daemon-reload")
    put_library(deb12, "-DSLOW=100")
    yield deb12
    deb12.sh(f"rm -f {DROP_IN}; systemctl daemon-reload; mariadb -e 'DROP TABLE IF EXISTS survivors.big'")


@pytest.mark.fault("long crash recovery, longer than activate_timeout (slowed down by a preload)")
def test_a_slow_recovery_is_waited_for(lab: Lab, dirty: Host) -> None:
    """Waited for while it goes on; ends effective."""
    rows = Survivors(dirty)
    dirty.sql(DIRTY)

    done = lab.tune("deb12", allocator_name=LIBRARY, tuning_run_id="slow", activate_timeout=TIMEOUT)

    (instance,) = result(dirty, "slow")["instances"]
    assert instance["downtime"] > 2 * TIMEOUT, instance
    assert (done.rc, instance["level"]) == (0, "effective"), done.out
    assert dirty.effective("libbad")
    assert rows.lost() == ""
    assert (
        dirty.sql("SELECT count(*) FROM survivors.big WHERE v = repeat(md5(repeat(md5(id), 6)), 6)")
        == "600000"
    )


@pytest.mark.fault("crash recovery that stands still")
def test_a_recovery_that_stands_still_is_put_back(lab: Lab, dirty: Host) -> None:
    """Not waited for without end: restored; reason hang."""
    rows = Survivors(dirty)
    dirty.sql(DIRTY)
    before = dirty.tree(BYTES)
    watcher = dirty.start(FREEZE)
    assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"

    done = lab.tune("deb12", allocator_name=LIBRARY, tuning_run_id="slow", activate_timeout=TIMEOUT)

    assert watcher.communicate()[0] == "frozen\n"
    assert done.rc != 0 and "hung when it was restarted" in done.said, done.out
    ended = result(dirty, "slow")
    assert (ended["state"], ended["reason"]) == ("restored", "hang"), ended
    assert dirty.tree(BYTES) == before
    assert not dirty.effective("libbad")
    assert rows.lost() == ""
