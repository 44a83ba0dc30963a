# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether other people use the server: a benchmark beside live traffic would disturb it and measure nothing."""

from __future__ import annotations

import time
from typing import Any, Callable

from .sysbench import SysbenchError

WINDOW = 2.0  # seconds
OWN = 3  # statements of the client that reads the second figure


def refuse_traffic(
    sql: Any,
    limit: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Raise SysbenchError if others send more than ``limit`` statements/s to the server of ``sql``."""
    rate = foreign_rate(sql, sleep, clock)
    if rate > limit:
        raise SysbenchError(
            f"others send {rate:.0f} statements/s to this server (limit {limit:g}), so it was not measured. "
            "Take the traffic away first, or raise sysbench_max_foreign_queries."
        )


def foreign_rate(
    sql: Any, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> float:
    """Watch the server of ``sql`` for two seconds and return how many statements/s others send to it."""
    begun, before = clock(), _questions(sql)
    sleep(WINDOW)
    return max(0, _questions(sql) - before - OWN) / (clock() - begun)


def _questions(sql: Any) -> int:
    return int(sql.query("SHOW GLOBAL STATUS LIKE 'Questions'")[0]["Value"])
