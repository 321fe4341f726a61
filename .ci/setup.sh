#!/usr/bin/env bash
# Installs what a target needs, saying so first. Costs nothing when all is there.
#   .ci/setup.sh run|test|bench|fmt|all
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/packages.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/cargo-tools.sh"

what=${1:-all}
use_toolchain

case $what in
  fmt) ;;
  run)
    ensure_packages "what Kotak is built with and runs on" "${PACKAGES_RUN[@]}"
    [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] ||
      ensure_packages "a virtual display, since there is none here" "${PACKAGES_DISPLAY[@]}"
    ;;
  test | bench | all)
    ensure_packages "what Kotak is built with, runs on and is tested with" \
      "${PACKAGES_RUN[@]}" "${PACKAGES_DISPLAY[@]}" "${PACKAGES_TEST[@]}"
    ensure_offered_packages "the browser of the component tests" "${PACKAGES_TEST_WHERE_OFFERED[@]}"
    ;;
  *) die "unknown set '$what': run, test, bench, fmt or all" ;;
esac

case $what in
  bench | all) ensure_packages "what the peer of the network bench needs" "${PACKAGES_BENCH[@]}" ;;
esac

ensure_rust
ensure_node
case $what in
  test | all) ensure_cargo_tools ;;
esac
say "Set-up: all there (Rust $(rust_version), Node.js $(node --version | tr -d v))."
