#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: malloc_benchmark
short_description: Time a loop of malloc and free with and without a preloaded library
description:
  - Compiles a small C program on the host, in a directory that only its owner can enter, and times a loop of C(malloc), two
    writes to the block, and C(free). The allocator of the system is always measured, as the baseline.
  - Each library is preloaded into that program alone. While the program stands still before its loop, the file that its
    C(malloc) and C(free) are bound to is read from its memory; where that is not the library, the library counts as not valid.
  - In each round every allocator has its turn, in an order that is random and the same for the same O(seed).
  - Refuses a host where another run is at work, servers that have live traffic, and more threads than CPUs.
  - Program, directory and processes are gone in the end. Nothing else is changed.
notes:
  - A loop of malloc says little about a database. It keeps one block at a time, so that fragmentation, the return of memory to
    the system and blocks that one thread allocates and another one frees do not come up. Measure the server as well.
  - It burns O(threads) CPUs while it runs. Its priority is the usual one, for a lower one would be measured, too.
  - The libraries run as the user of the module, which is usually root, so that one which others could replace is not tried.
  - The allocators run with their defaults. C(MALLOC_CONF) and the like are not passed on.
  - With one thread no thread is made, and allocators spare their locks, as in 2007. A server has many threads.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  library:
    description: Absolute paths of the libraries to measure beside the allocator of the system.
    type: list
    elements: str
    default: []
  preset:
    description:
      - Where O(iterations), O(size) and O(threads) come from if they are not given.
      - V(quick) is 20,000,000 times 1,024 bytes in one thread.
      - V(classic_2007) is 100,000,000 times 1,024 bytes in one thread. In 2007 it took 13.392 s with glibc and 9.558 s with
        tcmalloc (0.71 times) on a machine of that year.
    type: str
    choices: [quick, classic_2007]
    default: quick
  iterations:
    description: Pairs of malloc and free in each thread; 0 for those of O(preset).
    type: int
    default: 0
  size:
    description: Bytes of a block, at most 1 MiB; 0 for those of O(preset).
    type: int
    default: 0
  threads:
    description: Threads that run the loop at once; 0 for those of O(preset).
    type: int
    default: 0
  oversubscribe:
    description: Allow more threads than the host may use CPUs.
    type: bool
    default: false
  rounds:
    description: How often each allocator is measured. At least 6 are needed for an interval of the ratio.
    type: int
    default: 6
  seed:
    description: Seed of the order in each round.
    type: int
    default: 1
  timeout:
    description: Seconds that all loops together may take. The module fails when they are over.
    type: int
    default: 600
  servers:
    description:
      - Servers that must have no traffic, as M(fleet.mysqltune.mysqld_info) returns them. Used are C(name), C(pid), C(socket) and
        C(sql.client). One that does not run is left out, and one that cannot be asked counts as busy.
    type: list
    elements: dict
    default: []
  max_foreign_queries:
    description: Statements per second that others may send to each of O(servers). Each is watched for two seconds.
    type: float
    default: 10.0
  defaults_file:
    description: Client option file on the host with the account to ask O(servers) by; else socket authentication as root.
    type: path
attributes:
  check_mode:
    description: Says what would be run. Nothing is compiled or started.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
  platform:
    description: Reads C(/proc).
    support: full
    platforms: linux
seealso:
  - module: fleet.mysqltune.mysqld_info
  - module: fleet.mysqltune.sysbench
"""

EXAMPLES = r"""
- name: The loop of 2007 with tcmalloc and jemalloc
  fleet.mysqltune.malloc_benchmark:
    library:
      - /usr/lib/x86_64-linux-gnu/libtcmalloc.so.4
      - /usr/lib/x86_64-linux-gnu/libjemalloc.so.2
    preset: classic_2007
  register: timed

- name: Two threads, small blocks, not beside a busy server
  fleet.mysqltune.malloc_benchmark:
    library: [/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4]
    threads: 2
    size: 64
    servers: "{{ seen.mysqld.instances }}"
"""

RETURN = r"""
message:
  description: What was or would be measured, in words.
  type: str
  returned: success
  sample: 20,000,000 x malloc(1024) and free in 1 thread, 6 rounds
loop:
  description: What was timed - iterations, size, threads, rounds, seed, preset, and the cpus that the host may use.
  type: dict
  returned: success
compiler:
  description: The compiler as it calls itself.
  type: str
  returned: when measured
  sample: cc (Debian 12.2.0-14) 12.2.0
arms:
  description: One for each allocator, the system's first.
  type: list
  elements: dict
  returned: when measured
  contains:
    allocator:
      description: V(system), the name of the allocator, or the path of a library of another name.
      type: str
    library:
      description: Path that was preloaded; null for the system.
      type: str
    valid:
      description: Whether it counts. Where not, there are no figures.
      type: bool
    reason:
      description: Why it does not count, in one word, for example V(elf_class), V(not_found), V(not_bound), V(crash).
      type: str
    message:
      description: The reason in words.
      type: str
    bound:
      description: The files that malloc and free were bound to.
      type: list
      elements: str
    seconds:
      description: Seconds on the wall clock, a figure for each round.
      type: list
      elements: float
    cpu_seconds:
      description: CPU seconds of all threads, a figure for each round.
      type: list
      elements: float
    median:
      description: Median of the seconds.
      type: float
    min:
      description: The shortest.
      type: float
    max:
      description: The longest.
      type: float
    iqr:
      description: Distance of the quartiles of the seconds.
      type: float
    cpu_median:
      description: Median of the CPU seconds.
      type: float
    ns_per_pair:
      description: Nanoseconds on the wall clock for one malloc and free of a thread, from the median.
      type: float
    ratio:
      description:
        - Seconds against the system's allocator in the same round - the C(median) of the rounds, and C(low) and C(high) of an
          interval that holds the true median with C(confidence), at least 95 %. Null for the system.
        - The interval is that of the sign test, for which 6 rounds are the least; below it is null.
      type: dict
      sample: {median: 0.71, low: 0.69, high: 0.74, confidence: 0.9688}
    cpu_ratio:
      description: The same for CPU seconds, which other work on the host disturbs less.
      type: dict
    max_rss:
      description: Largest resident size of the program in bytes.
      type: int
remark:
  description: That something else ran on the host and disturbed the seconds; null for several threads, and if it was quiet.
  type: str
  returned: when measured
order:
  description: The allocators' turns in each round.
  type: list
  elements: list
  returned: when measured
"""

import signal
import sys
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host_facts import distribution
from ..module_utils.lease import LeaseHeld, check
from ..module_utils.malloc_build import MallocError, built
from ..module_utils.malloc_loop import PRESETS, Study, check_numbers, measure
from ..module_utils.option_file import read
from ..module_utils.sql import Sql, SqlError
from ..module_utils.sysbench import usable_cpus
from ..module_utils.sysbench_traffic import foreign_rate

ARGUMENTS: Dict[str, Any] = {
    "library": {"type": "list", "elements": "str", "default": []},
    "preset": {"type": "str", "choices": sorted(PRESETS, reverse=True), "default": "quick"},
    "iterations": {"type": "int", "default": 0},
    "size": {"type": "int", "default": 0},
    "threads": {"type": "int", "default": 0},
    "oversubscribe": {"type": "bool", "default": False},
    "rounds": {"type": "int", "default": 6},
    "seed": {"type": "int", "default": 1},
    "timeout": {"type": "int", "default": 600},
    "servers": {"type": "list", "elements": "dict", "default": []},
    "max_foreign_queries": {"type": "float", "default": 10.0},
    "defaults_file": {"type": "path"},
}


def study_of(params: Dict[str, Any]) -> Study:
    preset = PRESETS[params["preset"]]._asdict()
    loop = PRESETS["quick"]._replace(**{name: params[name] or preset[name] for name in preset})
    return Study(loop, params["rounds"], params["seed"], params["timeout"])


def refuse_busy(params: Dict[str, Any]) -> None:
    """Raise for a server that others use, or that cannot be asked: who knows."""
    limit = params["max_foreign_queries"]
    for server in params["servers"]:
        if not server["pid"]:
            continue
        sql = Sql(server["sql"]["client"], server["socket"], params["defaults_file"])
        try:
            rate = foreign_rate(sql)
        except SqlError as error:
            raise MallocError(
                f"{server['name']} cannot be asked whether it has traffic: {error}. Give it an account, or set "
                "malloc_benchmark_beside_traffic; nothing was measured."
            ) from error
        if rate > limit:
            raise MallocError(
                f"others send {rate:.0f} statements/s to {server['name']} (limit {limit:g}), and the loop would take its "
                "CPUs. Take the traffic away first, or set malloc_benchmark_beside_traffic; nothing was measured."
            )


def described(study: Study) -> str:
    loop = study.loop
    threads, rounds = ("" if number == 1 else "s" for number in (loop.threads, study.rounds))
    return f"{loop.iterations:,} x malloc({loop.size}) and free in {loop.threads} thread{threads}, {study.rounds} round{rounds}"


def work(params: Dict[str, Any], check_mode: bool) -> Dict[str, Any]:
    study, cpus = study_of(params), usable_cpus()
    check_numbers(study, cpus, params["oversubscribe"])
    check("")  # any run that is at work on this host
    asked = {"rounds": study.rounds, "seed": study.seed, "preset": params["preset"], "cpus": cpus}
    told = {"message": described(study), "loop": {**study.loop._asdict(), **asked}}
    if check_mode:
        measured = ", ".join(["the system's", *params["library"]])
        return dict(told, message=f"would time {told['message']}: {measured}")
    refuse_busy(params)
    with built(distribution(read("/etc/os-release") or "")) as loop:
        return {**told, "compiler": loop.compiler, **measure(loop.path, params["library"], study)}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))
    try:
        outcome = work(module.params, module.check_mode)
    except (MallocError, LeaseHeld, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **outcome)


if __name__ == "__main__":
    main()
