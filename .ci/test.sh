#!/usr/bin/env bash
# make test: every check and every test, as lanes. `.ci/test.sh LANE...` runs only the groups named:
# setup is always done; groups are style, dependencies, ui, rust, fuzz, documents.
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/build.sh"
. "$ROOT/.ci/lib/lane.sh"
. "$ROOT/.ci/lib/accounts.sh"
. "$ROOT/.ci/lib/rust-tests.sh"
. "$ROOT/.ci/lib/documents.sh"
# Lanes run where bash ignores `set -e`: every step of a lane is chained by && or `|| return`.

# The database of known faults lives at a host that a closed network does not reach.
SKIPS_ALLOWED_IN_CI=("dependencies: known faults")

groups=("$@")
wanted() {
  [ "${#groups[@]}" -eq 0 ] && return 0
  local group
  for group in "${groups[@]}"; do [ "$group" = "$1" ] && return 0; done
  return 1
}

setup() {
  "$ROOT/.ci/setup.sh" test && ensure_test_user
}

rust_format() {
  cargo fmt --version >/dev/null 2>&1 || skip "this Rust comes without a formatter"
  cargo fmt --all --check
  cargo fmt --manifest-path engine/fuzz/Cargo.toml --check
}
rust_lint() {
  cargo clippy --version >/dev/null 2>&1 || skip "this Rust comes without a linter"
  cargo clippy "${CARGO_SCOPE[@]}" --all-targets -- -D warnings
}
dependency_rules() {
  cargo-deny -L error check --show-stats licenses bans sources &&
    cargo-deny -L error --manifest-path engine/fuzz/Cargo.toml --config deny.toml check licenses sources
}
known_faults() {
  local output
  output=$(timeout 120 cargo-deny -L error check --show-stats advisories 2>&1) && {
    printf '%s\n' "$output"
    return 0
  }
  printf '%s\n' "$output"
  case $output in
    *"failed to fetch advisory database"*) skip "the advisory database cannot be reached from here" ;;
  esac
  return 1
}
fuzz_targets() {
  KOTAK_FUZZ_DIR=$TARGET/fuzz sh "$ROOT/engine/fuzz/run.sh" 60
}
unused_dependencies() { cargo-machete "$ROOT"; }
ui_script() { (cd "$ROOT/ui" && npm run --silent "$1"); }
ui_component_tests() {
  have chromium || skip "this distribution has no chromium package"
  ui_script test:component
}

lanes_begin
lane check "set-up" setup || {
  lanes_end
  exit 1
}
use_toolchain

pages=yes
lane check "ui: packages" npm_install || pages=no
if [ "$pages" = yes ]; then
  lane check "ui: build" build_ui || pages=no
fi
if [ "$pages" = yes ] && wanted ui; then
  lane check "ui: lint and format" ui_script lint || true
  lane check "ui: types" ui_script check || true
  lane tests "ui: unit tests" ui_script test:unit || true
  lane tests "ui: component tests" ui_component_tests || true
fi
if wanted dependencies; then
  lane check "dependencies: licences, bans, sources" dependency_rules || true
  lane check "dependencies: known faults" known_faults || true
  lane check "dependencies: unused" unused_dependencies || true
fi
if wanted style; then
  lane check "rust: format" rust_format || true
fi
if [ "$pages" = yes ]; then
  ! wanted rust || rust_lanes
  ! wanted style || lane check "rust: lint" rust_lint || true
else
  lane_lost "rust" "the pages that the panel embeds were not built"
fi
! wanted fuzz || lane check "fuzz: what reads hostile bytes, a minute each" fuzz_targets || true
! wanted documents || lane check "documents name what exists" documents_are_true || true
lanes_end
