#!/usr/bin/env bash
# Proves the two commands of the README on a bare Debian 12: a root with nothing but git, make and
# sudo, a fresh clone of this repository's HEAD, `make run`, then `make test`, nothing else typed;
# once as an ordinary user with passwordless sudo and once as root. Needs root and mmdebstrap.
#   .ci/bare-debian.sh [user|root|both] [run test ...]
# A network that needs more than that (its own certificate authority, say) is described by the
# caller's environment, and never by this repository:
#   BARE_PASS    names of environment variables to hand on
#   BARE_CA_DIR  folder of additional *.crt files to trust
#   BARE_APT     a line for apt.conf
#   BARE_KEEP    keep the root afterwards, and say where
#   BARE_REUSE   a kept root to go on in, instead of a new one
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"

[ "$(id -u)" = 0 ] || die "run this as root: it makes and enters a Debian root"
have mmdebstrap || die "mmdebstrap is missing: apt-get install mmdebstrap"
who=${1:-both}
shift || true
targets=("${@:-run test}")
# shellcheck disable=SC2206  # one default string becomes two words here
targets=(${targets[*]})
store=$TOOLS/bare
mkdir -p "$store"

if [ ! -e "$store/bookworm.tar" ]; then
  step "Making a bare Debian 12 (mmdebstrap)"
  mmdebstrap --quiet --format=tar --variant=minbase --include=git,make,sudo,ca-certificates \
    ${BARE_APT:+--aptopt="$BARE_APT"} bookworm "$store/bookworm.tar.part"
  mv "$store/bookworm.tar.part" "$store/bookworm.tar"
fi

# Everything below this line runs inside the root, as its root user.
inside=$(
  cat <<'INSIDE'
set -euo pipefail
account=$1
shift
update-ca-certificates >/dev/null 2>&1
home=/root
if [ "$account" = user ] && ! id someone >/dev/null 2>&1; then
  useradd --create-home --shell /bin/bash someone
  echo 'someone ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/someone
fi
[ "$account" = root ] || home=/home/someone
keep=()
for name in ${BARE_PASS:-}; do
  [ -n "${!name:-}" ] && keep+=("$name=${!name}")
done
as() {
  if [ "$account" = user ]; then
    setpriv --reuid someone --regid someone --init-groups -- \
      env -i HOME="$home" USER=someone LOGNAME=someone PATH=/usr/local/bin:/usr/bin:/bin "${keep[@]}" "$@"
  else
    env -i HOME=/root USER=root LOGNAME=root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${keep[@]}" "$@"
  fi
}
[ -d "$home/kotak" ] || as git clone --quiet /mnt/repository.git "$home/kotak"
cd "$home/kotak"
as git pull --quiet
for target; do
  started=$(date +%s)
  echo "-- $account: make $target"
  code=0
  as make "$target" </dev/null || code=$?
  echo "-- $account: make $target ended with $code after $(($(date +%s) - started)) s"
  [ "$code" = 0 ] || exit "$code"
done
INSIDE
)

# A root of its own for every account: unpacked, entered by pivot_root (a chroot would forbid the
# user namespaces that the sandbox is made of), thrown away.
prove() {
  local account=$1
  local root
  if [ -n "${BARE_REUSE:-}" ]; then
    root=$BARE_REUSE
    rm -rf "$root/mnt/repository.git"
  else
    root=$(mktemp -d "$store/root.XXXXXX")
    tar -xpf "$store/bookworm.tar" -C "$root"
  fi
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  printf '127.0.0.1 localhost bare\n' >"$root/etc/hosts"
  [ -z "${BARE_CA_DIR:-}" ] || cp "$BARE_CA_DIR"/*.crt "$root/usr/local/share/ca-certificates/"
  git clone --quiet --bare "$ROOT" "$root/mnt/repository.git"
  chmod -R a+rX "$root/mnt/repository.git"
  git config --file "$root/etc/gitconfig" safe.directory '*'
  local code=0
  unshare --mount --pid --fork --uts --ipc --kill-child -- bash -euc '
    root=$1 script=$2
    shift 2
    hostname bare
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=755,nosuid dev "$root/dev"
    for node in null zero full random urandom tty; do
      : >"$root/dev/$node"
      mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s /proc/self/fd/0 "$root/dev/stdin"
    ln -s /proc/self/fd/1 "$root/dev/stdout"
    ln -s /proc/self/fd/2 "$root/dev/stderr"
    mount -t tmpfs -o mode=755 run "$root/run"
    cd "$root"
    mkdir -p .outside
    pivot_root . .outside
    umount -l /.outside
    rmdir /.outside
    exec bash -c "$script" bare "$@"
  ' enter "$root" "$inside" "$account" "${targets[@]}" </dev/null || code=$?
  if [ -n "${BARE_KEEP:-}${BARE_REUSE:-}" ]; then
    say "kept: $root"
  else
    rm -rf --one-file-system "$root"
  fi
  return "$code"
}

case $who in
  both)
    prove user
    prove root
    ;;
  user | root) prove "$who" ;;
  *) die "unknown account '$who': user, root or both" ;;
esac
