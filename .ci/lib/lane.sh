# Lanes: named checks that are timed, counted and summed up. A lane that fails does not stop the
# others. The last line of a run is `N passed, N failed, N skipped`.
# shellcheck shell=bash

LOGS=$TARGET/test-logs
PASSED=0
FAILED=0
SKIPPED=0
SUMMARY=()
RUN_STARTED=$SECONDS
# What this kind of machine may leave out although CI demands everything it can do.
SKIPS_ALLOWED_IN_CI=()

in_ci() { [ "${CI:-}" = true ]; }

lanes_begin() {
  # An interrupted run may have left files of the ordinary user of the tests.
  rm -rf "$LOGS" 2>/dev/null || as_root rm -rf "$LOGS"
  mkdir -p "$LOGS"
}

# skip REASON: ends the lane that calls it.
skip() {
  printf '%s' "$*" >"$LOGS/skip-reason"
  exit 77
}

# Adds up the closing lines of the runners found in a log: cargo's, vitest's, that of Node.js, and
# our plain one.
# Prints "passed failed skipped".
count_results() {
  sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
    function number(word,   i) {
      for (i = 1; i < NF; i++) if ($(i + 1) ~ "^" word) return $i + 0
      return 0
    }
    /^test result: / { p += number("passed"); f += number("failed"); s += number("ignored") }
    /^ *Tests  / { p += number("passed"); f += number("failed"); s += number("skipped") + number("todo") }
    $1 == "ℹ" && NF == 3 && $2 == "pass" { p += $3 }
    $1 == "ℹ" && NF == 3 && ($2 == "fail" || $2 == "cancelled") { f += $3 }
    $1 == "ℹ" && NF == 3 && ($2 == "skipped" || $2 == "todo") { s += $3 }
    /^[0-9]+ passed, [0-9]+ failed/ { p += number("passed"); f += number("failed"); s += number("skipped") }
    /^kotak-skip: / { s += 1 }
    END { print p + 0, f + 0, s + 0 }'
}

# lane KIND NAME COMMAND...
#   check: counts as one; tests: what its runner counted, and none at all is a failure.
lane() {
  local kind=$1 name=$2
  shift 2
  local slug=${name//[^A-Za-z0-9]/-}
  local log=$LOGS/$slug.log started=$SECONDS code=0
  step "$name"
  rm -f "$LOGS/skip-reason"
  set +e
  (
    set -e
    "$@"
  ) 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
  set -e
  local took=$((SECONDS - started)) p=0 f=0 s=0 verdict=passed note=
  if [ "$code" = 77 ] && [ -e "$LOGS/skip-reason" ]; then
    note=$(cat "$LOGS/skip-reason")
    if in_ci && ! skip_is_allowed "$name"; then
      verdict=FAILED note="skipped where CI demands it: $note" f=1
    else
      verdict=skipped s=1
    fi
  elif [ "$kind" = check ]; then
    if [ "$code" = 0 ]; then p=1; else f=1 verdict=FAILED; fi
  else
    read -r p f s <<<"$(count_results "$log")"
    if [ "$code" != 0 ] && [ "$f" = 0 ]; then f=1; fi
    if [ "$code" = 0 ] && [ "$((p + f))" = 0 ]; then f=1 note="ran no test"; fi
    [ "$f" = 0 ] || verdict=FAILED
    note="$p passed, $f failed, $s skipped${note:+; $note}"
  fi
  PASSED=$((PASSED + p)) FAILED=$((FAILED + f)) SKIPPED=$((SKIPPED + s))
  SUMMARY+=("$(printf '%-8s %5d s  %s%s' "$verdict" "$took" "$name" "${note:+ ($note)}")")
  say "-- $name: $verdict in $took s${note:+ ($note)}"
  [ "$verdict" != FAILED ]
}

skip_is_allowed() {
  local name
  for name in "${SKIPS_ALLOWED_IN_CI[@]}"; do
    [ "$name" = "$1" ] && return 0
  done
  return 1
}

# lane_lost NAME REASON: a lane that could not even start.
lane_lost() {
  FAILED=$((FAILED + 1))
  SUMMARY+=("$(printf '%-8s %5d s  %s (%s)' FAILED 0 "$1" "$2")")
}

lanes_end() {
  step "Summary ($(((SECONDS - RUN_STARTED) / 60)) min $(((SECONDS - RUN_STARTED) % 60)) s; logs in $LOGS)"
  printf '%s\n' "${SUMMARY[@]}"
  say ""
  say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  [ "$FAILED" = 0 ]
}
