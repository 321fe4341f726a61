# The Rust lanes: everything is built once, then the test binaries run as both accounts.
# shellcheck shell=bash

BINARIES=$LOGS/binaries

# Writes "package-folder<TAB>kind<TAB>target<TAB>binary" for every test binary.
build_tests() {
  local messages=$LOGS/build-messages
  cargo test "${CARGO_SCOPE[@]}" --no-run --message-format=json-render-diagnostics >"$messages" ||
    return
  grep '"test":true},"features"' "$messages" |
    sed -n 's/.*"manifest_path":"\(.*\)\/Cargo\.toml".*"kind":\["\([a-z-]*\)".*"name":"\([^"]*\)","src_path".*"executable":"\([^"]*\)".*/\1\t\2\t\3\t\4/p' \
      >"$BINARIES"
  [ -s "$BINARIES" ]
}

# As whom a test target of the tests crate runs: pure checks and the window need no root.
roles_of() {
  case $1 in
    e2e* | golden* | contract*) echo user ;;
    *) echo user root ;;
  esac
}

# In which network it runs: the network tests get one of their own, from which nothing can leave.
network_of() {
  case $1 in
    egress | e2e_network | real_work) echo own ;;
    *) echo host ;;
  esac
}

# Runs every listed binary, and fails at the end when one did.
run_binaries() {
  local role=$1 dir kind target binary code=0
  shift
  while IFS=$'\t' read -r dir kind target binary; do
    say "-- $kind $target (as ${role/user/an ordinary user})"
    NETWORK=$(network_of "$target") run_binary "$role" "$dir" "$binary" || code=1
  done < <("$@")
  return "$code"
}
# The suites of the tests crate have lanes of their own; all else is one lane.
unit_binaries() { grep -v "^$ROOT/tests	test	" "$BINARIES"; }
suites() { grep "^$ROOT/tests	test	" "$BINARIES" | cut -f3 | sort -u; }
binaries_of() { grep "^$ROOT/tests	test	$1	" "$BINARIES"; }

# What no test may change on the host, whoever it runs as.
host_state() {
  local name
  for name in core_pattern modprobe sysrq; do
    printf '%s: %s\n' "$name" "$(cat "/proc/sys/kernel/$name" 2>/dev/null || echo 'not here')"
  done
}
host_is_as_it_was() {
  [ "$(host_state)" = "$HOST_BEFORE" ] || {
    printf 'before:\n%s\nafter:\n%s\n' "$HOST_BEFORE" "$(host_state)"
    return 1
  }
}

rust_lanes() {
  local role target
  HOST_BEFORE=$(host_state)
  if ! lane check "rust: build" build_programs || ! lane check "rust: build tests" build_tests; then
    lane_lost "rust: tests" "the build failed"
    return 0
  fi
  for role in user root; do
    lane tests "rust: unit and property tests, as $role" run_binaries "$role" unit_binaries || true
  done
  for target in $(suites); do
    for role in $(roles_of "$target"); do
      lane tests "rust: $target, as $role" run_binaries "$role" binaries_of "$target" || true
    done
  done
  lane check "rust: the host is as it was" host_is_as_it_was || true
}
