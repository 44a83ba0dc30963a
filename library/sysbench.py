#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
module: sysbench
short_description: Measure a MySQL, MariaDB or Percona server with sysbench 1.0
description:
  - Prepares, runs and cleans up a sysbench test in a schema and with an account of its own.
  - The random password of that account is kept in one file with mode 0600, never in an argument, the
    environment, the output or the results.
  - sysbench runs alone, under a supervisor that sleeps, with the command line, environment and CPU affinity
    of a command typed by hand. The action plugin of the same name follows the output and shows progress.
  - The report is parsed, judged (valid or not, with a reason) and kept beside the raw text.
version_added: 0.1.0
author: fleet.mysqltune contributors (@fleet-mysqltune)
options:
  command:
    description:
      - V(prepare) computes the disk space, makes schema, account and tables, and counts their rows.
      - V(run) measures. V(result) reads the result of a run that was started with O(background=true).
      - V(cleanup) removes schema, account, config file and a process left behind, if they are ours.
    type: str
    choices: [prepare, run, result, cleanup]
    required: true
  test:
    description: Name of a test or path of a Lua script.
    type: str
    default: oltp_read_write
  threads:
    description: Client threads; 0 means two for each CPU that the host may use.
    type: int
    default: 0
  duration:
    description: Length of the run in seconds.
    type: int
    default: 60
  events:
    description: End the run after so many events if O(duration) has not ended it before; 0 for no limit.
    type: int
    default: 0
  tables:
    description: Number of tables.
    type: int
    default: 4
  table_size:
    description: Rows of each table.
    type: int
    default: 25000
  seed:
    description: Seed of the random numbers, the same for runs to be compared; 0 takes the clock.
    type: int
    default: 1
  extra_options:
    description:
      - More options of sysbench, each V(--name=value). Options that this module sets itself are refused.
      - V(--rand-type=uniform) is added unless another is named, since its default differs between versions.
    type: list
    elements: str
    default: []
  grace:
    description: Seconds after O(duration) until sysbench forces its end; it is killed 60 seconds later.
    type: int
    default: 10
  max_foreign_queries:
    description:
      - Statements per second that others may send to the server; O(command=prepare) looks for two seconds and refuses above it.
    type: float
    default: 10.0
  background:
    description: Return as soon as the run has started; ask with O(command=result) afterwards.
    type: bool
    default: false
  fetch_to:
    description:
      - Directory on the controller for the raw text and the JSON of a run; phase and instance are added.
      - A relative path starts where the playbook was started. The action plugin does this.
    type: path
  instance:
    description: Name of the instance as in M(fleet.mysqltune.mysqld_info); names the directories.
    type: str
    default: mysqld
  phase:
    description: Label of the run, for example V(before).
    type: str
    default: run
  run_id:
    description:
      - Run of the toolkit that this belongs to; results go below its directory and its lease is renewed.
      - Without it nothing is leased and results stay below C(/var/lib/fleet-mysqltune/sysbench).
    type: str
  socket:
    description: Socket of the server, for sysbench and for the administrative SQL.
    type: path
  host:
    description: Address for sysbench if O(socket) is not given. It must be this host.
    type: str
    default: 127.0.0.1
  port:
    description: Port for O(host).
    type: int
    default: 3306
  user:
    description: Account for the administrative SQL.
    type: str
    default: root
  defaults_file:
    description: Client option file on the host with the administrator's credentials; else socket authentication.
    type: path
  client:
    description: The mysql or mariadb client to be used for the administrative SQL.
    type: path
  database:
    description: Schema that is made and dropped. One of that name made by others is never touched.
    type: str
    default: fleet_mysqltune_sbtest
  account:
    description: Name of the account that is made and dropped; it may use nothing but O(database).
    type: str
    default: fleet_mysqltune
  binary:
    description: Name or path of sysbench.
    type: str
    default: sysbench
  root:
    description: Directory for state and results.
    type: path
    default: /var/lib/fleet-mysqltune
attributes:
  check_mode:
    description: Says in RV(message) what would be done; runs nothing.
    support: full
  diff_mode:
    description: There are no files to compare.
    support: none
notes:
  - Supported is sysbench 1.0.x; other generations are refused by name.
  - Statements of the account and the schema stay out of the binary log where the server allows that; those of
    the benchmark itself do not. Do not benchmark members of replication.
"""

EXAMPLES = r"""
- name: Make schema, account and tables
  fleet.mysqltune.sysbench:
    command: prepare
    socket: /run/mysqld/mysqld.sock
    tables: 4
    table_size: 25000

- name: Measure for a minute
  fleet.mysqltune.sysbench:
    command: run
    test: oltp_read_write
    threads: 8
    duration: 60
    socket: /run/mysqld/mysqld.sock
  register: measured

- name: Take everything away again
  fleet.mysqltune.sysbench:
    command: cleanup
    socket: /run/mysqld/mysqld.sock
"""

RETURN = r"""
message:
  description: What was or would be done, in words.
  returned: always
  type: str
version:
  description: Version of sysbench.
  returned: when it was asked
  type: str
  sample: 1.0.20
directory:
  description: Directory on the host with C(sysbench.txt), the raw text, and C(sysbench.json).
  returned: for run and result
  type: str
benchmark:
  description:
    - The parsed report with units in the names of its keys, see C(module_utils/sysbench_report.py).
    - Beside it valid, reason, message, spread (within the run), remarks and command.
  returned: for result, and for run unless it went to the background
  type: dict
  sample: {valid: true, reason: null, tps: 608.19, qps: 12163.91, lat_avg_ms: 13.15, lat_pct_ms: 17.32}
leftover_removed:
  description: A schema and account of an interrupted earlier run were found and removed.
  returned: for prepare
  type: bool
space_needed:
  description: Bytes that tables and run may take.
  returned: for prepare
  type: int
space_free:
  description: Bytes that were free in the file system of the data directory.
  returned: for prepare
  type: int
running:
  description: Process id, start time and time-out of the run.
  returned: for run in the background
  type: dict
raw:
  description: File with the output so far.
  returned: for run in the background
  type: str
ended:
  description: File that appears when the run has ended.
  returned: for run in the background
  type: str
fetched:
  description: Files on the controller.
  returned: with O(fetch_to)
  type: list
  elements: str
"""

from typing import Any, Callable, Dict, Optional

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import sysbench_steps as steps
from ..module_utils.command import run as run_command
from ..module_utils.lease import TTL, JournalError, take
from ..module_utils.sql import Sql, SqlError, find_client
from ..module_utils.sysbench import Settings, SysbenchError, arguments, find_binary, usable_cpus, words
from ..module_utils.sysbench_account import Names
from ..module_utils.sysbench_traffic import refuse_traffic

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "command": {"type": "str", "choices": ["prepare", "run", "result", "cleanup"], "required": True},
    "test": {"type": "str", "default": "oltp_read_write"},
    "threads": {"type": "int", "default": 0},
    "duration": {"type": "int", "default": 60},
    "events": {"type": "int", "default": 0},
    "tables": {"type": "int", "default": 4},
    "table_size": {"type": "int", "default": 25000},
    "seed": {"type": "int", "default": 1},
    "extra_options": {"type": "list", "elements": "str", "default": []},
    "grace": {"type": "int", "default": 10},
    "max_foreign_queries": {"type": "float", "default": 10.0},
    "background": {"type": "bool", "default": False},
    "fetch_to": {"type": "path"},
    "instance": {"type": "str", "default": "mysqld"},
    "phase": {"type": "str", "default": "run"},
    "run_id": {"type": "str"},
    "socket": {"type": "path"},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 3306},
    "user": {"type": "str", "default": "root"},
    "defaults_file": {"type": "path"},
    "client": {"type": "path"},
    "database": {"type": "str", "default": "fleet_mysqltune_sbtest"},
    "account": {"type": "str", "default": "fleet_mysqltune"},
    "binary": {"type": "str", "default": "sysbench"},
    "root": {"type": "path", "default": "/var/lib/fleet-mysqltune"},
}


def settings_of(params: Dict[str, Any]) -> Settings:
    names = ("test", "duration", "events", "tables", "table_size", "seed", "grace")
    threads = params["threads"] or 2 * usable_cpus()
    return Settings(
        threads=threads, extra=tuple(params["extra_options"]), **{name: params[name] for name in names}
    )


def target_of(params: Dict[str, Any]) -> steps.Target:
    names = ("instance", "phase", "root", "run_id", "socket", "host", "port")
    client_host = "localhost" if params["socket"] else "127.0.0.1"
    own = Names(params["database"], params["account"], client_host)
    return steps.Target(names=own, **{name: params[name] for name in names})


def lease_of(params: Dict[str, Any], ttl: float = TTL) -> Optional[Callable[[], None]]:
    """Takes or renews the lease of the run each time it is called; None without a run."""
    run_id = params["run_id"]
    return (lambda: take(run_id, params["root"], ttl) and None) if run_id else None


def work(params: Dict[str, Any]) -> Dict[str, Any]:
    """Do the one step and return the module's result."""
    settings, target, command = settings_of(params), target_of(params), params["command"]
    client = params["client"] or find_client("/usr/sbin/mysqld").path
    sql = Sql(client, params["socket"], params["defaults_file"], params["user"])
    renew = lease_of(params)
    if renew:
        renew()
    if command == "cleanup":
        removed = steps.cleanup(target, sql)
        return {
            "changed": removed,
            "message": "benchmark removed" if removed else "nothing of ours was there",
        }
    binary = steps.Binary(*find_binary(params["binary"], run_command))
    if command == "prepare":
        facts = prepare(params, target, settings, binary, sql)
        return dict(facts, changed=True, version=binary.version, message=f"{target.names.schema} prepared")
    todo = steps.job(target, settings, binary)
    facts = {"changed": command == "run", "version": binary.version, "directory": todo.results}
    if command == "run":
        running = steps.begin(todo, target, settings, renew)
        if params["background"]:
            return dict(facts, running=running, raw=todo.raw, ended=todo.ended, message="sysbench runs")
    outcome = steps.result(todo, target, settings, binary)
    return dict(facts, benchmark=outcome, message=outcome["message"] or "measured")


def prepare(
    params: Dict[str, Any], target: steps.Target, settings: Settings, binary: steps.Binary, sql: Sql
) -> Dict[str, Any]:
    """Prepare under a lease that outlasts the filling of the tables; it is back to its usual length afterwards."""
    limit, renew = params["max_foreign_queries"], lease_of(params)
    extend = lease_of(params, TTL + steps.PREPARE_TIMEOUT)
    if extend:
        extend()
    try:
        return steps.prepare(
            target, settings, binary, sql, run_command, refuse=lambda: refuse_traffic(sql, limit)
        )
    finally:
        if renew:
            renew()


def described(params: Dict[str, Any]) -> str:
    """What would be done, for check mode."""
    target = target_of(params)
    if params["command"] == "cleanup":
        return f"would remove schema {target.names.schema} and its account if they are ours"
    command = "prepare" if params["command"] == "prepare" else "run"
    return f"would execute: {words(arguments(settings_of(params), command, target.config))}"


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(
            changed=module.params["command"] in ("prepare", "run"), message=described(module.params)
        )
    try:
        outcome = work(module.params)
    except (SysbenchError, SqlError, JournalError, OSError) as error:
        module.fail_json(msg=f"{module.params['instance']}: {error}")
    module.exit_json(**outcome)


if __name__ == "__main__":
    main()
