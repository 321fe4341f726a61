# Distribution packages: which are missing, what they are for, and their installation.
# shellcheck shell=bash

# What builds and runs Kotak.
PACKAGES_RUN=(bubblewrap socat build-essential pkg-config ca-certificates libwebkit2gtk-4.1-dev)
# What shows and photographs the window where there is no display.
PACKAGES_DISPLAY=(xvfb xauth dbus imagemagick)
# What the tests drive the window, the browser and the kernel with, and the shells they run inside.
PACKAGES_TEST=(webkit2gtk-driver xdotool libcap2-bin iproute2 procps passwd sudo zsh fish)
# The real clients and servers of the network tests. Of SSH servers the one that comes without a
# service of its own: nothing starts to listen on this machine.
PACKAGES_TEST+=(curl git openssh-client dropbear-bin bind9-dnsutils python3 python3-pip)
# The work that is done inside and outside alike.
PACKAGES_TEST+=(cmake sqlite3 vim tmux rsync python3-venv python3-dev python3-setuptools python3-wheel)
# What npm's sandbox-runtime looks for before it starts.
PACKAGES_BENCH=(ripgrep)
# Used where the distribution has it as a package (Ubuntu has Chromium only as a snap).
PACKAGES_TEST_WHERE_OFFERED=(chromium)

is_debian_like() { have apt-get && have dpkg-query; }

# Prints those of the named packages that are not installed. One call, no apt.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  local name
  for name in "$@"; do
    grep -qxF "$name" <<<"$installed" || printf '%s\n' "$name"
  done
}

# The version apt would install, or nothing.
candidate() {
  apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -vxF '(none)' || true
}

APT_LISTS_ARE_FRESH=no
refresh_apt() {
  [ "$APT_LISTS_ARE_FRESH" = yes ] && return 0
  as_root apt-get update -qq
  APT_LISTS_ARE_FRESH=yes
}

# install_packages WHY PACKAGE...: says what it will do, then does it. Removes nothing.
install_packages() {
  local why=$1 log
  shift
  mkdir -p "$TARGET"
  log=$TARGET/apt-get.log
  say ""
  say "Kotak will now install, with apt-get, $why (its output goes to $log):"
  printf '  %s\n' "$@"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 --no-install-recommends --no-remove "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "apt-get could not install: $*
Nothing of yours was removed. Mend what apt-get says above, then run the same command again."
  }
  say "Installed."
}

# The whole list in one place, for a distribution that this script does not know.
stop_with_package_list() {
  die "this is not a Debian or Ubuntu system, so nothing was installed.
Install what your distribution calls these, then run the same command again:
  $*
and Rust $RUST_WANTED or newer (rustc, cargo) and Node.js 20.19 or newer (node, npm)."
}

# ensure_packages WHY PACKAGE...
ensure_packages() {
  local why=$1
  shift
  if ! is_debian_like; then
    local tool
    for tool in bwrap socat cc pkg-config; do
      have "$tool" || stop_with_package_list "$@"
    done
    pkg-config --exists webkit2gtk-4.1 || stop_with_package_list "$@"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  can_be_root || die "these packages are missing, and neither root nor sudo is at hand:
  sudo apt-get install --no-install-recommends ${missing[*]}"
  say "Missing packages: ${missing[*]}"
  say "First the package lists are brought up to date (apt-get update)."
  refresh_apt
  install_packages "$why" "${missing[@]}"
}

# ensure_offered_packages WHY PACKAGE...: as above, but a package the distribution lacks is named
# and left out; the lanes that need it say so.
ensure_offered_packages() {
  local why=$1 name wanted=()
  shift
  is_debian_like || return 0
  local missing
  mapfile -t missing < <(missing_packages "$@")
  for name in "${missing[@]}"; do
    if [ -n "$(candidate "$name")" ]; then
      wanted+=("$name")
    else
      say "This distribution has no package '$name'; what needs it will say so."
    fi
  done
  [ "${#wanted[@]}" -eq 0 ] || ensure_packages "$why" "${wanted[@]}"
}
