#!/usr/bin/env bash
# make bench: prints the launch ratio against plain bubblewrap and the throughput of the terminal
# in the real window, each beside its target. `make bench ARGS=launch` or `ARGS=window` for one.
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/build.sh"

"$ROOT/.ci/setup.sh" bench
use_toolchain
build_ui
build_for_use kotak kotak-panel bench
step "Measuring (on a quiet machine the ratios repeat; the absolute times are this machine's)"
exec "$TARGET/release/bench" "$@"
