#!/usr/bin/env bash
# make fmt: Rust, TypeScript, Svelte and styles, in place.
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/build.sh"

"$ROOT/.ci/setup.sh" fmt
use_toolchain
cargo fmt --all
cargo fmt --manifest-path engine/fuzz/Cargo.toml
npm_install
(cd "$ROOT/ui" && npm run --silent format)
