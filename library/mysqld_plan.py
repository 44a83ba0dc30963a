#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: mysqld_plan
short_description: Observe a host and plan what has to change
description:
  - Checks the users' variables of all roles and playbooks; where one is wrong, the host is not asked at all.
  - Runs M(fleet.mysqltune.mysqld_info) on the host and compares what it saw with what is desired. One remote call, read only.
  - A host that must not or cannot be changed is no failed task - RV(plan.status) and RV(plan.message) tell it, so that
    a playbook can report every host before it fails any.
version_added: 0.1.0
author: fleet.mysqltune contributors
options:
  desired:
    description: What the host has to become.
    type: dict
    required: true
    suboptions:
      allocator:
        description: The allocator and how it is delivered.
        type: dict
        required: true
        suboptions:
          name:
            description: Name of the allocator, V(system), V(glibc), V(linked), or the absolute path of a library.
            type: str
            required: true
          delivery:
            description: V(auto), or the one method to insist on.
            type: str
            default: auto
            choices: [auto, systemd, mysqld_safe, malloc_lib]
          environment:
            description: Variables that tune the allocator.
            type: dict
            default: {}
          search_path:
            description: More directories or files to look for allocator libraries in.
            type: list
            elements: str
            default: []
          source:
            description: Source archive to build the allocator from. What was built from it is preferred to everything else.
            type: dict
            suboptions:
              archive:
                description: Path of the archive on the controller; empty means that nothing is built.
                type: str
                default: ""
              sha256:
                description: Hash that the archive must have.
                type: str
                default: ""
              host:
                description: Host of the inventory that builds for the others; empty means that each host builds itself.
                type: str
                default: ""
              prefix:
                description: Directory on the hosts below which the allocators are put.
                type: path
                default: /opt/fleet-mysqltune
      host_memory:
        description: The memory settings of the host, as M(fleet.mysqltune.host_memory) takes them. Without it they are left
          alone and not looked at.
        type: dict
        suboptions:
          transparent_huge_pages:
            description: V(keep), V(madvise), V(never) or V(always).
            type: str
            default: keep
          overcommit_memory:
            description: V(0), V(1) or V(2); empty leaves it alone.
            type: str
            default: ""
          swappiness:
            description: V(0) to V(200); empty leaves it alone.
            type: str
            default: ""
          sys_root:
            description: Where sysfs is.
            type: path
            required: true
          proc_root:
            description: Where procfs is.
            type: path
            required: true
          config_root:
            description: Where the files for the next boot are.
            type: path
            required: true
      run_id:
        description: The run whose own lease is not in the way.
        type: str
        default: ""
      defaults_file:
        description: Client option file with SQL credentials on the host; empty means socket authentication as root.
        type: str
        default: ""
      benchmark:
        description: Whether changing hosts are to be measured.
        type: str
        default: none
        choices: [none, before_after]
      benchmark_replication_members:
        description: Consent to measure on a server that takes part in replication.
        type: bool
        default: false
      include_primaries:
        description: Consent to restart primaries.
        type: bool
        default: false
      include_cluster_members:
        description: Consent to restart members of Galera clusters and of group replication.
        type: bool
        default: false
attributes:
  check_mode:
    description: Reads only, so that check mode makes no difference.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Observe and plan
  fleet.mysqltune.mysqld_plan:
    desired:
      allocator:
        name: jemalloc
  register: seen

- name: Show what would happen
  ansible.builtin.debug:
    var: seen.summary
"""

RETURN = r"""
observed:
  description: What M(fleet.mysqltune.mysqld_info) saw.
  returned: success
  type: dict
plan:
  description:
    - RV(plan.status) is V(nothing), V(change), V(stopped), V(refused) or V(failed), with RV(plan.reason) and RV(plan.message).
    - RV(plan.packages) and RV(plan.build) say what has to be installed, or built, before.
    - RV(plan.host_memory) lists the memory settings that have to change, as M(fleet.mysqltune.host_memory) returns them.
    - RV(plan.instances) says per instance what to do (RV(plan.instances[].action)), how, with which library and variables,
      and why.
  returned: success
  type: dict
summary:
  description: One line per instance, or the one line that says why the host was not planned.
  returned: success
  type: list
  elements: str
targets:
  description: The instances to restart, each with the library and the variables that it must end up with.
  returned: success
  type: list
  elements: dict
"""
