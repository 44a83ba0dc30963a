#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time two commands in alternation and print the ratio of their medians.

usage: ratio.py LIMIT RUNS 'BASE COMMAND' 'COMMAND'     exit 1 if the ratio is above LIMIT
"""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
import time

Timed = tuple[str, list[float]]
"""A label and the seconds of each run."""


def seconds(command: str) -> float:
    """Run a command line without a shell and return its wall time; a failing command ends the benchmark."""
    start = time.monotonic()
    done = subprocess.run(
        shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command}\nended with {done.returncode}:\n{done.stdout}")
    return time.monotonic() - start


def compare(base: str, command: str, runs: int) -> tuple[list[float], list[float]]:
    """Return the times of both commands; one run of each warms connections and caches and is not counted."""
    seconds(base), seconds(command)
    first: list[float] = []
    second: list[float] = []
    for number in range(runs):
        turn = [(base, first), (command, second)]
        for line, times in turn if number % 2 else reversed(turn):
            times.append(seconds(line))
    return first, second


def within(name: str, base: Timed, other: Timed, limit: float) -> bool:
    """Print both medians with their ranges and the ratio; return whether it is within the limit."""
    for label, times in (base, other):
        print(f"{statistics.median(times):7.2f} s  [{min(times):.2f} .. {max(times):.2f}]  {label}")
    ratio = statistics.median(other[1]) / statistics.median(base[1])
    print(f"{name}: {ratio:.2f} x (limit {limit:g} x, medians of {len(base[1])} alternated runs)")
    return ratio <= limit


def report(name: str, base: str, command: str, runs: int, limit: float) -> bool:
    """Compare two commands, print the figures, and return whether the ratio is within the limit."""
    first, second = compare(base, command, runs)
    return within(name, (base, first), (command, second), limit)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    if not report("ratio", sys.argv[3], sys.argv[4], int(sys.argv[2]), float(sys.argv[1])):
        raise SystemExit(1)
