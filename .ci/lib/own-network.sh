# Sourced by inside.sh, as root, in a fresh network namespace: makes of it a small internet whose
# addresses are those of real sites, so that the address guard has nothing to refuse, and from which
# nothing can leave: there is no interface but loopback, and no route out.
# shellcheck shell=bash
# Uses: clone, environment (of which it may change the values)

ip link set lo up
# A public range, all of it answered here.
ip route add local 93.184.216.0/24 dev lo
for address in 2606:2800:220:1::{1..9} 2606:2800:220:1::{10..40}; do
  ip -6 addr add "$address/128" dev lo nodad
done
# What no session may reach whatever its name is: metadata, private, link-local, shared.
for address in 169.254.169.254 169.254.7.7 10.1.2.3 172.16.5.5 192.168.7.7 100.64.0.9; do
  ip addr add "$address/32" dev lo
done
for address in fd00::1 fd00:ec2::254; do
  ip -6 addr add "$address/128" dev lo nodad
done
# Of this namespace alone: the servers of the tests are an ordinary user's, on the real ports.
echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start

# Names come from the tests' own name server, whatever this machine is set up for.
place=/opt
case $clone/ in /opt/*) place=/srv ;; esac
mount -t tmpfs -o mode=755 kotak-tests "$place"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$place/hosts"
printf 'nameserver 93.184.216.53\n' >"$place/resolv.conf"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$place/nsswitch.conf"
for name in hosts resolv.conf nsswitch.conf; do
  mount --bind "$place/$name" "$(readlink -f "/etc/$name")"
done

# The toolchain that built the tests, at a place where sandboxes see it.
for value in "${environment[@]}"; do
  case $value in
    KOTAK_TEST_RUST=/usr*) ;;
    KOTAK_TEST_RUST=*)
      mkdir "$place/rust"
      mount --bind "${value#*=}" "$place/rust"
      environment+=("KOTAK_TEST_RUST=$place/rust")
      ;;
  esac
done
