# Running prebuilt test binaries as root and as an ordinary user, in an outer namespace.
# shellcheck shell=bash

TEST_USER=kotak-test

# The ordinary user of the tests: an account of its own where root is at hand, else whoever asks.
ensure_test_user() {
  [ "$(id -u)" != 0 ] && ! can_be_root && return 0
  id "$TEST_USER" >/dev/null 2>&1 && return 0
  say ""
  say "Kotak will now add the account '$TEST_USER' (no password), as which half of the tests run."
  say "  To remove it later: userdel --remove $TEST_USER"
  as_root useradd --create-home --shell /bin/bash --comment "Kotak tests" "$TEST_USER"
}

# run_binary ROLE PACKAGE_DIR BINARY [ARGUMENT...]: ROLE is `root` or `user`. With NETWORK=own the
# binary runs in a network namespace of its own, from which nothing can leave. PROGRAMS is the folder
# of the programs that it drives, when it is not the one of the tests.
run_binary() {
  local role=$1 dir=$2 binary=$3
  shift 3
  local out=$LOGS/files-$role
  local environment=(
    LANG=C.UTF-8 TERM=xterm-256color SHELL=/bin/bash RUST_BACKTRACE=1
    CARGO_MANIFEST_DIR="$dir" KOTAK_BIN_DIR="${PROGRAMS:-$TARGET/debug}" KOTAK_PICTURES="$out"
  )
  in_ci && environment+=(CI=true)
  local name
  for name in KOTAK_BENCH_SRT KOTAK_LOAD KOTAK_RACE_SECONDS KOTAK_FUZZ_SECONDS KOTAK_FUZZ_SEED; do
    [ -z "${!name:-}" ] || environment+=("$name=${!name}")
  done
  mkdir -p "$out"
  if can_be_root; then
    local code=0 namespaces=(--mount --pid)
    if [ "${NETWORK:-host}" = own ]; then
      namespaces+=(--net)
      environment+=(KOTAK_TEST_NETWORK=own KOTAK_TEST_RUST="$(rustc --print sysroot)")
    fi
    as_root unshare "${namespaces[@]}" --fork --kill-child --mount-proc -- \
      bash "$ROOT/.ci/lib/inside.sh" "$role" "$TEST_USER" "$ROOT" "$out" "$dir" \
      "${environment[@]}" -- "$binary" "$@" </dev/null || code=$?
    as_root chown -R "$(id -u):$(id -g)" "$out"
    return "$code"
  fi
  [ "$role" = user ] && [ "${NETWORK:-host}" = host ] || skip "neither root nor sudo is at hand"
  local home code=0
  home=$(mktemp -d /var/tmp/kotak-home.XXXXXX)
  mkdir -m 700 "$home/.runtime"
  (
    cd "$dir"
    timeout --kill-after=10 "$TEST_LIMIT" env -i "${environment[@]}" HOME="$home" USER="$(id -un)" \
      LOGNAME="$(id -un)" XDG_RUNTIME_DIR="$home/.runtime" PATH="$PATH" "$binary" "$@" </dev/null
  ) || code=$?
  rm -rf "$home"
  return "$code"
}

# How long one test binary may take before it is taken for hung, in seconds.
TEST_LIMIT=1200
