#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Build a lab image without a registry. usage: build.sh IMAGE SUITE PACKAGES [HOOK]
set -euo pipefail
image=$1 suite=$2 packages=$3 hook=${4:-}
here=$(dirname "$(realpath "$0")")

# Labs that start at the same time wait for one build.
exec 9>"/run/lock/${image//[^a-z0-9]/-}"
flock 9
if podman image exists "$image"; then exit 0; fi

# This machine's own Debian mirrors, whatever the format of its apt sources, with the suite exchanged.
sources() {
  local codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # shellcheck disable=SC2016  # apt-get expands these
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sed -nE "s/^(\S+) (${codename:-stable}|stable)(-updates|-security)? main$/deb \1 $suite\3 main/p" | sort -u
}

if [ -n "${LAB_MIRROR:-}" ]; then
  mirrors="deb $LAB_MIRROR $suite main"
else
  mirrors=$(sources)
  [ -n "$mirrors" ] || { apt-get -q update && mirrors=$(sources); } >&2
fi
[ -n "$mirrors" ] || {
  echo "No Debian mirror in the apt sources of this machine. Name one: LAB_MIRROR=http://MIRROR/debian" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-config dump --format '%F "%v";%n' Acquire |
  grep -E '^Acquire::(Check-Date|Check-Valid-Until|https?::Proxy[^ ]*) ' >"$work/apt.conf" || true

# The lists of packages stay, so that `apt-get install` works on the hosts at once.
printf '%s\n' "$mirrors" |
  mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --include="ca-certificates,dbus,iproute2,openssh-server,procps,python3,systemd,systemd-sysv${packages:+,$packages}" \
    --customize-hook="$here/host.sh" ${hook:+--customize-hook="$here/$hook"} "$suite" "$work/root.tar" -
podman import --quiet --change 'CMD ["/sbin/init"]' --change 'STOPSIGNAL SIGRTMIN+3' "$work/root.tar" "$image" >/dev/null
echo "built $image"
