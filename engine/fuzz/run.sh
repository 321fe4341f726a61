#!/bin/sh
# Builds all fuzz targets and runs each for SECONDS (60 when not given); fails when one finds something.
# Usage: sh engine/fuzz/run.sh [SECONDS] [TARGET...]
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- http_head socks5 client_hello dns_message pattern guard_frame git_content
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
  mkdir -p "$out/corpus/$target" "$out/artifacts/$target"
done

# As many at a time as there are processors; each tells what it did in a log of its own.
fuzz_one() {
  log=$out/$1.log
  code=0
  "$out/$host/release/$1" "$out/corpus/$1" "$out/seeds/$1" \
    -artifact_prefix="$out/artifacts/$1/" \
    -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 >"$log" 2>&1 || code=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  if [ "$code" = 0 ] && [ "${runs:-0}" -gt 0 ]; then
    echo "fuzz $1: $runs inputs in $seconds s, nothing found"
  else
    tail -n 40 "$log"
    echo "fuzz $1: FOUND something (exit code $code); the input is in $out/artifacts/$1"
    return 1
  fi
}

failed=0
while [ $# -gt 0 ]; do
  pids=
  for _ in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
    [ $# -gt 0 ] || break
    fuzz_one "$1" &
    pids="$pids $!"
    shift
  done
  for pid in $pids; do
    wait "$pid" || failed=1
  done
done
exit "$failed"
