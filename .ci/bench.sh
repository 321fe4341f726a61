#!/usr/bin/env bash
# make bench: prints the launch ratio against plain bubblewrap, the throughput of the terminal in the
# real window, what the guard costs real work, and what a connection costs through a session's proxy
# and through others, each beside its target. `make bench ARGS=launch`, `ARGS=window`, `ARGS=guard` or
# `ARGS=network` for one.
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/build.sh"
. "$ROOT/.ci/lib/lane.sh"
. "$ROOT/.ci/lib/accounts.sh"

"$ROOT/.ci/setup.sh" bench
use_toolchain
build_ui
PEER_VERSION=0.0.83

build_for_use kotak kotak-panel bench attempt
step "Measuring (on a quiet machine the ratios repeat; the absolute times are this machine's)"
# The toolchain is work for the guard's bench.
[ "${1:-}" = network ] || KOTAK_TEST_RUST=$(rustc --print sysroot) "$TARGET/release/bench" "$@"
if [ -z "${1:-}" ] || [ "$1" = network ]; then
  # The peer, at the version that this was written against; it is run in the same stage.
  peer=$TARGET/bench-peer
  step "npm install @anthropic-ai/sandbox-runtime@$PEER_VERSION (into $peer)"
  npm install --prefix "$peer" --no-fund --no-audit --loglevel=error \
    "@anthropic-ai/sandbox-runtime@$PEER_VERSION"
  ensure_test_user
  mkdir -p "$LOGS"
  NETWORK=own PROGRAMS=$TARGET/release KOTAK_BENCH_SRT=$peer/node_modules/.bin/srt \
    run_binary user "$ROOT/tests" "$TARGET/release/bench" network
fi
