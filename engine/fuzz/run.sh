#!/bin/sh
# Builds all fuzz targets and runs each for SECONDS (60 when not given); the first finding ends it.
# Usage: sh engine/fuzz/run.sh [SECONDS] [TARGET...]
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- http_head socks5 client_hello dns_message pattern guard_frame
host=$(rustc -vV | sed -n 's/^host: //p')
out=${KOTAK_FUZZ_DIR:-$PWD/target}

# The coverage that libFuzzer steers by. Given a target, cargo keeps these flags from build scripts.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
export RUSTFLAGS
# Both are for cargo-fuzz's sake: the same crate runs under it with a sanitizer.
export RUSTC_BOOTSTRAP=1
CARGO_TARGET_DIR=$out cargo build --release --locked --target "$host"

sh seeds.sh "$out/seeds"
for target; do
  echo "fuzzing $target for $seconds s"
  mkdir -p "$out/corpus/$target" "$out/artifacts/$target"
  "$out/$host/release/$target" "$out/corpus/$target" "$out/seeds/$target" \
    -artifact_prefix="$out/artifacts/$target/" \
    -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
