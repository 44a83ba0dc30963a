# SPDX-License-Identifier: GPL-3.0-or-later
"""What the seconds of several rounds are worth: median, spread, and the ratio to the baseline. Pure."""

from __future__ import annotations

import math
import statistics
from typing import Any, Dict, Optional, Sequence, Tuple

LEVEL = 0.95

Interval = Tuple[float, float, float]
"""The lowest and the highest value, and the confidence."""


def spread(seconds: Sequence[float]) -> Dict[str, float]:
    """Return ``median``, ``min``, ``max`` and ``iqr`` (0 for a single round)."""
    quarters = (
        statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
    )
    found = {
        "median": quarters[1],
        "min": min(seconds),
        "max": max(seconds),
        "iqr": quarters[2] - quarters[0],
    }
    return {name: round(value, 6) for name, value in found.items()}


def ratio(seconds: Sequence[float], baseline: Sequence[float]) -> Optional[Dict[str, Optional[float]]]:
    """Return the median of the rounds' ratios to the baseline of the same round, and its interval.

    ``low``, ``high`` and ``confidence`` are None below six rounds, which cannot give 95 %. None for loops that
    were too short for the clock.
    """
    if not all(baseline):
        return None
    pairs = [own / other for own, other in zip(seconds, baseline)]
    found = median_interval(pairs)
    low, high, confidence = found if found else (None, None, None)
    return {
        "median": round(statistics.median(pairs), 4),
        "low": None if low is None else round(low, 4),
        "high": None if high is None else round(high, 4),
        "confidence": confidence and round(confidence, 4),
    }


def median_interval(values: Sequence[float], level: float = LEVEL) -> Optional[Interval]:
    """Return the narrowest pair of order statistics that holds the true median with at least ``level``.

    The interval of the sign test: it asks for independent values of any distribution, even a skew one, and needs
    no random numbers (W. J. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
    """
    ordered, count, found = sorted(values), len(values), None
    for rank in range(1, (count + 1) // 2 + 1):
        outside = sum(math.comb(count, k) for k in range(rank)) / 2**count
        if 1 - 2 * outside < level:
            break
        found = (ordered[rank - 1], ordered[-rank], 1 - 2 * outside)
    return found


def idle(wall: Sequence[float], cpu: Sequence[float]) -> float:
    """Return the share of the wall clock in which one busy thread was not on a CPU."""
    elapsed = statistics.median(wall)
    return max(0.0, 1 - statistics.median(cpu) / elapsed) if elapsed else 0.0


def summary(wall: Sequence[float], cpu: Sequence[float], pairs: int) -> Dict[str, Any]:
    """Return the figures of one arm; ``pairs`` of malloc and free were made by each of its threads."""
    found = spread(wall)
    return {
        "seconds": [round(value, 6) for value in wall],
        "cpu_seconds": [round(value, 6) for value in cpu],
        **found,
        "cpu_median": round(statistics.median(cpu), 6),
        "ns_per_pair": round(statistics.median(wall) / pairs * 1e9, 3),
    }
