#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe the database servers of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mysqld_info
short_description: Observe the database servers of a host and what their memory allocators really are
description:
  - Finds every running mysqld and mariadbd of the host, and the systemd units that would start one, with the
    launcher, the option files, the allocator that C(malloc) and C(free) are bound to, and the place in a
    replication topology.
  - Finds the allocator libraries of the host and tells which are safe to preload.
  - Which allocator is in use is read from the relocation slots of the process, not from its environment or
    from SQL variables.
  - Servers that run in containers on the host are not its own and are left out.
  - Reads only.
version_added: 0.1.0
author: fleet.mysqltune contributors
options:
  allocator_search_path:
    description: More directories or files to look for allocator libraries in. A file is listed whatever it
      is.
    type: list
    elements: str
    default: []
  allocator_prefix:
    description: Where M(fleet.mysqltune.allocator_build) puts what it builds; it is looked through as well.
    type: path
    default: /opt/fleet-mysqltune
  defaults_file:
    description:
      - Client option file on the host with the account to ask the servers by, mode 0600.
      - Without it the client reads its usual files, and C(root) authenticates by the socket.
    type: path
  topology:
    description: Ask the servers for replicas, primaries and clusters. Without it every role is V(unknown).
    type: bool
    default: true
  memory_roots:
    description: Where to look for the memory settings of the host. Without it they are not looked for.
    type: dict
    suboptions:
      sys_root:
        description: Where sysfs is.
        type: path
        default: /sys
      proc_root:
        description: Where procfs is.
        type: path
        default: /proc
      config_root:
        description: Where the files for the next boot are.
        type: path
        default: /etc
attributes:
  check_mode:
    description: Reads only, so that check mode makes no difference.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
notes:
  - Needs root on the host, because the memory of the servers is read.
  - Values of passwords and the like in command lines are hidden.
"""

EXAMPLES = r"""
- name: Observe the servers
  fleet.mysqltune.mysqld_info:
  register: seen

- name: Show the allocator of each server
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.allocator.name }} ({{ item.allocator.level }})"
  loop: "{{ seen.mysqld.instances }}"
  loop_control:
    label: "{{ item.name }}"

- name: Observe with an account of its own and a library outside of the standard directories
  fleet.mysqltune.mysqld_info:
    defaults_file: /root/tuning.cnf
    allocator_search_path:
      - /opt/allocators/lib
"""

RETURN = r"""
mysqld:
  description: What was seen.
  returned: success
  type: dict
  contains:
    host:
      description:
        - The host - C(hostname), C(system), C(machine), C(init) (V(systemd) or V(other)), C(distribution)
          (C(id), C(version), C(like)), C(page_size), C(cpus), C(memory_total) and C(memory_limit) in bytes,
          C(thp), C(container).
        - With O(memory_roots) also C(memory_settings) - what runs, what our files set at boot, and what wins over them.
      type: dict
      returned: always
      sample: {"hostname": "db1", "init": "systemd", "machine": "x86_64", "thp": "madvise"}
    instances:
      description: The servers, sorted by name.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the systemd unit if that is the launcher, else the data directory.
          type: str
          returned: always
        pid:
          description: Process number, null for a stopped server.
          type: int
          returned: always
        exe:
          description: Real path of the program.
          type: str
          returned: always
        argv:
          description: Command line, secrets hidden.
          type: list
          elements: str
          returned: always
        user:
          description: User that the server runs as.
          type: str
          returned: always
        flavour:
          description: V(mariadb), V(mysql) or V(percona).
          type: str
          returned: always
        version:
          description: Version of the server.
          type: str
          returned: always
        bits:
          description: ELF class of the program, 32 or 64.
          type: int
          returned: always
        machine:
          description: Machine that the program is built for.
          type: str
          returned: always
        started:
          description: Start of the process, in seconds since the epoch.
          type: float
          returned: always
        launcher:
          description:
            - What starts the server - C(kind) (V(systemd), V(mysqld_safe), V(sysv), V(bare), V(masked) or V(stopped)),
              C(unit), C(script)
              (real path of mysqld_safe), C(script_link) (the path that it was invoked by), C(init_script),
              C(fmri).
          type: dict
          returned: always
        datadir:
          description: Data directory.
          type: str
          returned: always
        socket:
          description: UNIX socket.
          type: str
          returned: always
        port:
          description: TCP port.
          type: int
          returned: always
        option_files:
          description: The option files that exist, in the order in which the server reads them.
          type: list
          elements: str
          returned: always
        sql:
          description: C(client) program, whether the server was C(reachable), and the C(error) if it was not.
          type: dict
          returned: always
        allocator:
          description:
            - C(name) and C(path) of what C(malloc) belongs to; C(configured), what the next start would
              preload; whether our own drop-in or block is there (C(managed)) or a hand-made edit is in use
              (C(adopted)), and what overrides it (C(overridden_by)).
            - C(malloc_libs), each C(malloc-lib) that mysqld_safe takes from an option file - C(file), C(library), C(ours).
            - The allocators' variables - C(configured_variables) at the next start, C(own_variables) that are ours
              among them, C(variables) of the running process.
            - The evidence - C(environ), C(mapped), C(deleted), C(linked), C(bound), C(resolved) (other names
              of the mapped files), C(problems) (why a preload is not mapped), C(error).
            - C(level) and C(reason), judged against the configured allocator, or the system's if none is
              configured.
          type: dict
          returned: always
          sample:
            name: tcmalloc
            path: /usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10
            configured: [/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4]
            level: effective
            reason: null
        memory:
          description: C(rss), C(pss) and C(anon_huge_pages) in bytes; the last two are null above 32 GiB
            resident.
          type: dict
          returned: always
        secure_exec:
          description: Whether the dynamic linker ignores preloads because the program gains rights at its
            start.
          type: bool
          returned: always
        confinement:
          description: AppArmor profile or SELinux context, or V(unconfined).
          type: str
          returned: always
        topology:
          description:
            - C(role) (V(standalone), V(replica), V(primary), V(galera), V(group_replication) or V(unknown)),
              C(replica), C(peers), C(error).
          type: dict
          returned: always
    libraries:
      description:
        - The allocator libraries, sorted by path - C(path) to preload it by, C(real_path), C(soname),
          C(allocator), C(bits), C(machine), C(uid), C(mode), C(sha256), C(package), C(source) (the hash of the archive
          that it was built from by M(fleet.mysqltune.allocator_build)), and whether it is C(usable), else C(reason)
          and C(message).
      type: list
      elements: dict
      returned: always
    managed_files:
      description:
        - Files that committed runs left here - C(path), C(run_id), C(state) (V(as_left), V(changed), V(gone) or V(unreadable)),
          C(mode), C(kind) (V(mysqld_safe) or V(option_file) where only a block is ours), C(block) (whether it is there),
          C(content) (of a file that is ours as a whole).
      type: list
      elements: dict
      returned: always
    lease:
      description: The run that holds the host - C(run_id), C(expires) (epoch), C(live), C(holder).
      type: dict
      returned: always
    unfinished:
      description: Runs that were interrupted - C(run_id), C(state), C(started).
      type: list
      elements: dict
      returned: always
    last_run:
      description: The latest run that ended - C(run_id), C(state), C(message), C(reason), C(finished).
      type: dict
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.boot_settings import Roots
from ..module_utils.built import PREFIX
from ..module_utils.elf import ElfError
from ..module_utils.host_memory import observe as observe_memory
from ..module_utils.journal import JournalError
from ..module_utils.observe import ObserveError, observe
from ..module_utils.systemd_env import UnitError

ARGUMENTS = {
    "allocator_search_path": {"type": "list", "elements": "str", "default": []},
    "allocator_prefix": {"type": "path", "default": PREFIX},
    "defaults_file": {"type": "path"},
    "topology": {"type": "bool", "default": True},
    "memory_roots": {
        "type": "dict",
        "options": {
            "sys_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
            "config_root": {"type": "path", "default": "/etc"},
        },
    },
}


def main() -> None:
    """Observe and exit."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    try:
        seen = observe(
            given["allocator_search_path"],
            given["defaults_file"],
            topology=given["topology"],
            prefix=given["allocator_prefix"],
        )
        roots = given["memory_roots"]
        if roots:
            seen["host"]["memory_settings"] = observe_memory(
                Roots(roots["sys_root"], roots["proc_root"], roots["config_root"])
            )
    except (ObserveError, JournalError, ElfError, UnitError, OSError) as error:
        module.fail_json(msg=f"the host cannot be observed: {error}")
    module.exit_json(changed=False, mysqld=seen)


if __name__ == "__main__":
    main()
