#!/usr/bin/env bash
# Runs inside fresh mount and PID namespaces, as root: gives the tests homes and a /tmp of their
# own, makes the clone reachable for the ordinary user, becomes the wanted user, runs the binary.
# Whatever a test leaves behind ends with these namespaces.
#   inside.sh ROLE USER CLONE OUT DIR NAME=VALUE... -- BINARY ARGUMENT...
set -euo pipefail
role=$1 user=$2 clone=$3 out=$4 dir=$5
shift 5
environment=()
while [ "$1" != -- ]; do
  environment+=("$1")
  shift
done
shift

mount --make-rprivate /
case " ${environment[*]} " in
  *" KOTAK_TEST_NETWORK=own "*) . "$(dirname "${BASH_SOURCE[0]}")/own-network.sh" ;;
esac
hidden=(/root /tmp)
if [ "$role" = user ]; then
  # The first folder above the clone that an ordinary user may not enter hides it: replace it too.
  above=
  IFS=/ read -r -a parts <<<"${clone#/}"
  for part in "${parts[@]}"; do
    above=$above/$part
    if [ "$above" != "$clone" ] && ! setpriv --reuid "$user" --clear-groups --regid "$user" test -x "$above"; then
      hidden+=("$above")
      break
    fi
  done
fi
# The clone again at a place that is not covered.
mount --rbind "$clone" /mnt
covered=no
for place in "${hidden[@]}"; do
  [ -d "$place" ] || continue
  case $place in
    /tmp) mode=1777 ;;
    /root) mode=$([ "$role" = root ] && echo 700 || echo 755) ;;
    *) mode=755 ;;
  esac
  [ "$place" = /root ] || [ "$place" = /tmp ] || [ "$covered" = no ] || continue
  mount -t tmpfs -o "mode=$mode" kotak-tests "$place"
  case $clone/ in "$place"/*) covered=yes ;; esac
done
if [ "$covered" = yes ]; then
  mkdir -p "$clone"
  mount --rbind /mnt "$clone"
fi
umount -l /mnt
mkdir -m 1777 /tmp/.X11-unix

if [ "$role" = root ]; then
  home=/root
  become=()
  name=root
else
  home=$(getent passwd "$user" | cut -d: -f6)
  mount -t tmpfs -o "mode=700,uid=$(id -u "$user"),gid=$(id -g "$user")" kotak-tests "$home"
  become=(setpriv --reuid "$user" --regid "$user" --init-groups --)
  name=$user
  chown -R "$user:" "$out"
fi
mkdir -m 700 "$home/.runtime"
chown "$name:" "$home/.runtime"
"${become[@]}" test -x "$1" || {
  echo "the account $name cannot read $1: is the clone readable for others?" >&2
  exit 1
}
ulimit -c 0
cd "$dir"
exec "${become[@]}" timeout --kill-after=10 "${TEST_LIMIT:-1200}" env -i "${environment[@]}" \
  HOME="$home" USER="$name" LOGNAME="$name" XDG_RUNTIME_DIR="$home/.runtime" \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
