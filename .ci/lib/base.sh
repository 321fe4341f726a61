# Sourced by every script here: where things are, how to speak, how to become root.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# Tools that no package offers live outside the clone, so that a second clone finds them.
TOOLS=${KOTAK_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/kotak-tools}
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
export ROOT TOOLS TARGET
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
cd "$ROOT"

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
die() {
  printf '\nkotak: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# True when this shell can act as root.
can_be_root() {
  [ "$(id -u)" = 0 ] && return 0
  have sudo || return 1
  sudo -n true 2>/dev/null && return 0
  # With a terminal, sudo can ask for the password.
  { : </dev/tty; } 2>/dev/null
}

# Runs a command as root: directly, or by sudo (which may ask for a password on a terminal).
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif sudo -n true 2>/dev/null; then
    sudo -n -- "$@"
  else
    sudo -- "$@"
  fi
}

# version_at_least HAVE WANT: compares dotted numbers, ignoring what follows the digits.
version_at_least() {
  local a b i
  IFS=. read -r -a a <<<"${1%%[-+]*}"
  IFS=. read -r -a b <<<"${2%%[-+]*}"
  for i in 0 1 2; do
    [ "${a[i]:-0}" -gt "${b[i]:-0}" ] && return 0
    [ "${a[i]:-0}" -lt "${b[i]:-0}" ] && return 1
  done
  return 0
}
