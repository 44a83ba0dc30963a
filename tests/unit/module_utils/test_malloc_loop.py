# SPDX-License-Identifier: GPL-3.0-or-later
"""The real compiler, real programs and real allocators; only the numbers are small."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils.elf import Elf
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_build import MallocError, built
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_loop import (
    Arm,
    Study,
    check_numbers,
    fit,
    measure,
    remark,
    results,
)
from ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_turn import Loop, Turn, Unfit, turn
from programs import Programs
from programs import programs as programs  # a fixture

SMALL = Study(Loop(1000, 64), rounds=6, seed=1, timeout=60)
CRASHES_LATER = """
#include <stddef.h>
#include <stdlib.h>
static char heap[1 << 24]; static size_t used, calls;
void *malloc(size_t n) { void *p = heap + used; if (++calls > 500) abort(); used += (n + 31) & ~15ul; return p; }
void free(void *p) { (void) p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void) p; return malloc(n); }
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    with built({"id": "debian"}, places=[str(tmp_path)]) as found:
        yield found.path


def anything(_path: str) -> None:
    """Stand in for the check of paths: libraries that a test compiles lie where others may write."""


def test_the_compiler_leaves_malloc_free_and_the_stores_in_the_loop(loop: str) -> None:
    with Elf.open(loop) as elf:
        assert all(elf.slots(("malloc", "free"))[name] for name in ("malloc", "free"))
    short, long = (
        min(turn(loop, Loop(n, 64), None, 30).cpu for _ in range(3)) for n in (200_000, 20_000_000)
    )
    assert long > 10 * short


def test_an_allocator_is_measured_while_it_is_bound(loop: str, programs: Programs) -> None:
    library = programs.library("libjemalloc.so.2")
    found = measure(loop, [library], SMALL, check=anything)
    system, other = found["arms"]
    assert (system["allocator"], system["library"], system["valid"]) == ("system", None, True)
    assert (other["allocator"], other["valid"], other["bound"]) == ("jemalloc", True, [library])
    assert len(other["seconds"]) == len(system["seconds"]) == 6
    assert system["ratio"] is None and other["ratio"]["low"] <= other["ratio"]["median"]
    assert other["max_rss"] > 1000 * 64  # this allocator never gives anything back


def test_every_allocator_has_its_turn_in_every_round_in_an_order_of_the_seed(
    loop: str, programs: Programs
) -> None:
    libraries = [programs.library(f"lib{name}.so") for name in ("one", "two", "three")]
    orders = [
        measure(loop, libraries, SMALL._replace(seed=seed), check=anything)["order"] for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(row) == sorted(["system", *libraries]) for order in orders for row in order)
    assert len({tuple(row) for row in orders[0]}) > 1


def test_a_library_without_malloc_is_not_bound(loop: str, programs: Programs) -> None:
    found = measure(loop, [programs.library("libidle.so", "int nothing;")], SMALL, check=anything)
    idle = found["arms"][1]
    assert (idle["valid"], idle["reason"]) == (False, "not_bound") and "libc" in idle["message"]
    assert "seconds" not in idle


def test_a_library_of_another_class_is_named_so(loop: str, programs: Programs) -> None:
    try:
        library = programs.library("libtcmalloc.so.4", "int nothing;", "-m32", "-nostdlib")
    except subprocess.CalledProcessError:
        pytest.skip("this compiler makes no 32-bit code")
    arm = measure(loop, [library], SMALL, check=anything)["arms"][1]
    assert (arm["allocator"], arm["valid"], arm["reason"]) == ("tcmalloc", False, "elf_class")


def test_a_crash_takes_one_library_out_and_spares_the_others(loop: str, programs: Programs) -> None:
    bad, good = (
        programs.library("libbad.so", CRASHES_LATER),
        programs.library("libgood.so"),
    )
    system, first, second = measure(loop, [bad, good], SMALL, check=anything)["arms"]
    assert (first["valid"], first["reason"]) == (False, "crash") and "SIGABRT" in first["message"]
    assert system["valid"] and second["valid"] and len(second["seconds"]) == 6


def test_a_library_that_hangs_at_its_start_is_killed(
    loop: str, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ansible_collections.fleet.mysqltune.plugins.module_utils.malloc_turn.STARTUP", 0.3)
    source = "#include <unistd.h>\n__attribute__((constructor)) static void c(void) { for (;;) sleep(1); }"
    with pytest.raises(Unfit) as raised:
        turn(loop, Loop(1, 64), programs.library("libhang.so", source), 30)
    assert raised.value.reason == "hang"
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _program(pid) == loop]


def _program(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def test_nothing_runs_longer_than_the_timeout(loop: str) -> None:
    endless = Study(Loop(10**12, 64), rounds=1, seed=1, timeout=1)
    with pytest.raises(MallocError, match="had not ended in round 1 of 1 when the timeout of 1 s was over"):
        measure(loop, [], endless)
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _program(pid) == loop]


def test_rounds_that_will_not_fit_are_given_up_after_the_first(loop: str) -> None:
    with pytest.raises(MallocError, match="the first of 1000 rounds took"):
        measure(loop, [], Study(Loop(20_000_000, 64), rounds=1000, seed=1, timeout=15))


def test_threads_run_the_loop_at_once(loop: str) -> None:
    one, two = (turn(loop, Loop(2_000_000, 64, threads), None, 30) for threads in (1, 2))
    assert two.cpu > 1.3 * one.cpu


def test_a_library_that_others_could_replace_is_not_even_tried(tmp_path: Path) -> None:
    library = tmp_path / "libx.so"
    library.write_bytes(Path("/proc/self/exe").read_bytes())
    library.chmod(0o666)
    assert fit(str(library))[0] == "unsafe_path" and fit("relative.so")[0] == "unsafe_path"
    assert fit("/usr/lib/libfleet_none.so.4")[0] == "not_found"


@pytest.mark.parametrize(
    ("loop_", "words"),
    [
        (Loop(1000, 64, 3), "threads is 3, but this host may use 2 CPUs"),
        (Loop(0, 64), "iterations is 0. Use a number from 1"),
        (Loop(10, (1 << 20) + 1), "size is 1048577. Use a number from 1 to 1048576"),
    ],
)
def test_numbers_that_cannot_be_are_named_with_what_can(loop_: Loop, words: str) -> None:
    with pytest.raises(MallocError, match=words):
        check_numbers(SMALL._replace(loop=loop_), cpus=2, oversubscribe=False)


def test_more_threads_than_cpus_need_consent() -> None:
    check_numbers(SMALL._replace(loop=Loop(1000, 64, 3)), cpus=2, oversubscribe=True)


def test_the_directory_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with built({}, places=[str(tmp_path)]) as found:
        directory = Path(found.path).parent
        assert directory.stat().st_mode & 0o777 == 0o700 and found.compiler
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ({"id": "debian", "like": []}, "apt install gcc libc6-dev"),
        ({"id": "ubuntu", "like": ["debian"]}, "apt install gcc libc6-dev"),
        ({"id": "rocky", "like": ["rhel", "centos", "fedora"]}, "dnf install gcc glibc-devel"),
        ({}, "gcc with the headers of the C library"),
    ],
)
def test_a_missing_compiler_is_named_with_the_package_of_the_system(system, command, tmp_path: Path) -> None:
    with pytest.raises(MallocError, match=command), built(system, search=str(tmp_path)):
        pass


def test_a_failed_compilation_says_what_the_compiler_said_and_leaves_nothing(tmp_path: Path) -> None:
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho 'fatal error: stdio.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    with (
        pytest.raises(MallocError, match=r"stdio.h: No such file.*apt install gcc libc6-dev"),
        built({"id": "debian"}, search=str(compiler.parent), places=[str(work)]),
    ):
        pass
    assert list(work.iterdir()) == []


def turns(wall: list[float], cpu: float) -> list[Turn]:
    return [Turn(seconds, cpu, 1, {"bound": {}}) for seconds in wall]


def test_without_a_valid_baseline_there_is_no_ratio() -> None:
    arms = [Arm(None, [], "second_allocator", "x"), Arm("/usr/lib/libx.so", turns([1.0] * 6, 1.0))]
    assert [arm.get("ratio") for arm in results(arms, Loop(1, 1))] == [None, None]


def test_a_busy_host_is_remarked_only_where_one_thread_can_tell() -> None:
    arms = [Arm(None, turns([1.0] * 6, 0.95)), Arm("/x", turns([1.0] * 6, 0.5))]
    assert "for up to 50% of the time" in (remark(arms, Loop(1, 1)) or "")
    assert remark(arms, Loop(1, 1, 2)) is None and remark(arms[:1], Loop(1, 1)) is None
