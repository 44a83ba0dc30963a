# SPDX-License-Identifier: GPL-3.0-or-later
"""Time a loop of malloc and free with each library and without any, in rounds of random order."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .allocators import Problem, check_library, classify
from .evidence import soname_of
from .malloc_build import MallocError
from .malloc_stats import idle, ratio, summary
from .malloc_turn import Loop, Turn, Unfit, names, turn
from .preload_list import unsafe_path

SYSTEM = "system"
PRESETS = {
    "quick": Loop(20_000_000, 1024, 1),
    "classic_2007": Loop(100_000_000, 1024, 1),
}
"""``classic_2007`` took 13.392 s with glibc and 9.558 s with tcmalloc on a machine of its year."""
LIMITS = {"iterations": 10**12, "size": 1 << 20, "threads": 1024, "rounds": 1000, "timeout": 86400}
DISTURBED = 0.1  # share of the time that a loop may be kept off its CPU without a remark


class Study(NamedTuple):
    """What is asked: the loop, how many rounds, the seed of their order, and the seconds that all may take."""

    loop: Loop
    rounds: int
    seed: int
    timeout: float


@dataclass
class Arm:
    """One library (None: the system's allocator), its turns so far, and why it does not count."""

    library: Optional[str]
    turns: List[Turn] = field(default_factory=list)
    reason: Optional[str] = None
    message: str = ""

    @property
    def valid(self) -> bool:
        return self.reason is None


Check = Callable[[str], Optional[Problem]]


def check_numbers(study: Study, cpus: int, oversubscribe: bool) -> None:
    """Raise MallocError for a number that cannot be, or more threads than CPUs."""
    numbers = {**study.loop._asdict(), "rounds": study.rounds, "timeout": study.timeout}
    for name, most in LIMITS.items():
        if not 1 <= numbers[name] <= most:
            raise MallocError(f"{name} is {numbers[name]}. Use a number from 1 to {most}.")
    if study.loop.threads > cpus and not oversubscribe:
        raise MallocError(
            f"threads is {study.loop.threads}, but this host may use {cpus} CPU{'s' if cpus > 1 else ''}: their turns "
            f"would be measured, not the allocator. Use at most {cpus}, or set oversubscribe."
        )


def fit(path: str) -> Optional[Problem]:
    """Return why a library is not even tried: what others could replace must not run as root."""
    unsafe = unsafe_path(path)
    return ("unsafe_path", unsafe) if unsafe else check_library(path)


def measure(program: str, libraries: Sequence[str], study: Study, check: Check = fit) -> Dict[str, Any]:
    """Return ``arms`` (the system's allocator first), ``order`` (of each round) and ``remark``; MallocError.

    A library that is not bound, crashes or hangs is an arm that is not valid, with a reason.
    """
    deadline = time.monotonic() + study.timeout
    arms = [Arm(None), *(Arm(path) for path in dict.fromkeys(libraries))]
    for arm in arms:
        _try_out(program, arm, study, deadline, check)
    shuffle, order = random.Random(study.seed), []
    for number in range(1, study.rounds + 1):
        row = [arm for arm in arms if arm.valid]
        shuffle.shuffle(row)
        order.append([arm.library or SYSTEM for arm in row])
        begun = time.monotonic()
        for arm in row:
            _take_turn(program, arm, study, deadline, number)
        _check_time(study, number, time.monotonic() - begun, deadline)
    return {"arms": results(arms, study.loop), "order": order, "remark": remark(arms, study.loop)}


def _try_out(program: str, arm: Arm, study: Study, deadline: float, check: Check) -> None:
    """Start it for one iteration: it brings the files into memory, and shows what cannot be measured."""
    problem = check(arm.library) if arm.library else None
    if problem:
        arm.reason, arm.message = problem
        return
    short = study._replace(loop=study.loop._replace(iterations=1))
    _take_turn(program, arm, short, deadline, 0)
    arm.turns.clear()


def _take_turn(program: str, arm: Arm, study: Study, deadline: float, number: int) -> None:
    try:
        arm.turns.append(turn(program, study.loop, arm.library, max(0.0, deadline - time.monotonic())))
    except Unfit as unfit:
        arm.reason, arm.message = unfit.reason, unfit.message
    except TimeoutError:
        raise MallocError(
            f"the loop with {arm.library or 'the allocator of the system'} had not ended in round {number} of "
            f"{study.rounds} when the timeout of {study.timeout:g} s was over. Raise timeout, or lower iterations or rounds."
        ) from None


def _check_time(study: Study, number: int, took: float, deadline: float) -> None:
    """End early where the first round shows that the time will not do."""
    needed = took * (study.rounds - number)
    if number == 1 and needed > deadline - time.monotonic():
        raise MallocError(
            f"the first of {study.rounds} rounds took {took:.1f} s, so that all do not fit into the timeout of "
            f"{study.timeout:g} s. Raise timeout, or lower iterations or rounds."
        )


def results(arms: Sequence[Arm], loop: Loop) -> List[Dict[str, Any]]:
    """Return each arm as the module does; the ratios are to the first one."""
    return [_result(arm, arms[0], loop) for arm in arms]


def _result(arm: Arm, baseline: Arm, loop: Loop) -> Dict[str, Any]:
    told: Dict[str, Any] = {
        "allocator": _allocator(arm.library),
        "library": arm.library,
        "valid": arm.valid,
        "reason": arm.reason,
        "message": arm.message,
    }
    if not arm.valid or not arm.turns:
        return told
    wall, cpu = [one.wall for one in arm.turns], [one.cpu for one in arm.turns]
    compared = baseline.valid and arm is not baseline
    return {
        **told,
        **summary(wall, cpu, loop.iterations),
        "ratio": ratio(wall, [one.wall for one in baseline.turns]) if compared else None,
        "cpu_ratio": ratio(cpu, [one.cpu for one in baseline.turns]) if compared else None,
        "max_rss": max(one.max_rss for one in arm.turns),
        "bound": names(arm.turns[0].facts),
    }


def remark(arms: Sequence[Arm], loop: Loop) -> Optional[str]:
    """Return a sentence if one thread's loop had to wait for a CPU; several threads may wait for each other."""
    figures = [([one.wall for one in arm.turns], [one.cpu for one in arm.turns]) for arm in arms if arm.turns]
    worst = max((idle(wall, cpu) for wall, cpu in figures), default=0.0)
    if loop.threads > 1 or worst <= DISTURBED:
        return None
    return (
        f"something else ran on this host: the loop was kept off its CPU for up to {worst:.0%} of the time. "
        "Look at the CPU ratio, or measure again when the host is quiet."
    )


def _allocator(path: Optional[str]) -> str:
    """Return the name of an allocator by the library's file or soname; the path of one that is unknown."""
    if path is None:
        return SYSTEM
    return classify(path) or classify(soname_of(path) or "") or path
