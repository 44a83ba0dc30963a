# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random
import statistics

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_stats import (
    idle,
    median_interval,
    ratio,
    spread,
    summary,
)
from hypothesis import given
from hypothesis import strategies as st


def test_six_rounds_are_the_least_for_an_interval_and_give_the_whole_range():
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    low, high, confidence = median_interval([6.0, 1.0, 4.0, 3.0, 5.0, 2.0])
    assert (low, high) == (1.0, 6.0)
    assert confidence == pytest.approx(1 - 2 / 2**6)


@pytest.mark.parametrize(("count", "rank"), [(8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (25, 8)])
def test_the_interval_has_the_ranks_of_the_published_tables(count, rank):
    low, high, confidence = median_interval([float(value) for value in range(1, count + 1)])
    assert (low, high) == (rank, count + 1 - rank)
    assert confidence >= 0.95


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    draw, held, confidence = random.Random(7), 0, 0.0
    for _ in range(2000):
        low, high, confidence = median_interval([draw.lognormvariate(0, 1) for _ in range(9)])
        held += low <= 1.0 <= high
    assert held / 2000 == pytest.approx(confidence, abs=4 * math.sqrt(0.05 * 0.95 / 2000))


def test_a_ratio_pairs_each_round_with_its_own_baseline():
    """A host that gets slower in every round changes no ratio, though it changes every second."""
    baseline = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    found = ratio([0.7 * value for value in baseline], baseline)
    assert found == {"median": 0.7, "low": 0.7, "high": 0.7, "confidence": 0.9688}


def test_a_ratio_of_few_rounds_has_no_interval():
    assert ratio([1.0, 3.0], [2.0, 2.0]) == {"median": 1.0, "low": None, "high": None, "confidence": None}


def test_loops_that_are_too_short_for_the_clock_have_no_ratio():
    assert ratio([0.1, 0.1], [0.1, 0.0]) is None
    assert idle([0.0], [0.0]) == 0.0


@given(st.lists(st.floats(0.001, 1000), min_size=6, max_size=40))
def test_the_median_lies_within_its_interval_and_the_interval_within_the_values(values):
    low, high, confidence = median_interval(values)
    assert min(values) <= low <= statistics.median(values) <= high <= max(values)
    assert 0.95 <= confidence <= 1


def test_the_spread_of_one_round_is_nothing():
    assert spread([2.5]) == {"median": 2.5, "min": 2.5, "max": 2.5, "iqr": 0.0}


def test_the_spread_has_the_quartiles_of_all_rounds():
    assert spread([5.0, 1.0, 2.0, 3.0, 4.0]) == {"median": 3.0, "min": 1.0, "max": 5.0, "iqr": 2.0}


def test_time_for_a_pair_is_that_of_one_thread():
    found = summary([2.0, 2.0, 2.0], [4.0, 4.0, 4.0], 100_000_000)
    assert (found["ns_per_pair"], found["cpu_median"]) == (20.0, 4.0)


def test_a_loop_with_a_cpu_of_its_own_is_never_idle():
    assert idle([1.0, 1.0], [1.02, 1.01]) == 0.0
    assert idle([2.0, 2.0], [1.0, 1.5]) == pytest.approx(0.375)
