#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Run podman where /sys/fs/cgroup is a pure cgroup v2 hierarchy, for containers with systemd 258 or later. usage: podman.sh ARGUMENT...
set -eu
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then exec podman "$@"; fi

# On a hybrid one: in a mount namespace of its own, in which cgroup2 lies over it.
# shellcheck disable=SC2016  # the inner shell expands
exec unshare -m --propagation unchanged sh -euc '
  mount --make-rprivate /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  exec podman "$@"' podman "$@"
