# A display of our own for machines that have none.
# shellcheck shell=bash

DISPLAY_PID=
DISPLAY_DIR=

# start_display WIDTHxHEIGHTxDEPTH: starts Xvfb on a free number, reachable with our cookie only, and exports DISPLAY.
start_display() {
  DISPLAY_DIR=$(mktemp -d "${TMPDIR:-/tmp}/kotak-display.XXXXXX")
  local cookie number=
  cookie=$(mcookie)
  export XAUTHORITY=$DISPLAY_DIR/auth
  xauth -q add :0 . "$cookie" 2>/dev/null
  Xvfb -displayfd 3 -screen 0 "$1" -nolisten tcp -noreset -auth "$XAUTHORITY" \
    3>"$DISPLAY_DIR/number" >"$DISPLAY_DIR/log" 2>&1 &
  DISPLAY_PID=$!
  for _ in $(seq 100); do
    number=$(cat "$DISPLAY_DIR/number")
    [ -n "$number" ] && break
    kill -0 "$DISPLAY_PID" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$number" ] || {
    cat "$DISPLAY_DIR/log" >&2
    die "the virtual display (Xvfb) did not start"
  }
  xauth -q add ":$number" . "$cookie"
  export DISPLAY=:$number
}

stop_display() {
  [ -n "$DISPLAY_PID" ] && kill "$DISPLAY_PID" 2>/dev/null && wait "$DISPLAY_PID" 2>/dev/null
  [ -n "$DISPLAY_DIR" ] && rm -rf "$DISPLAY_DIR"
  DISPLAY_PID=
  DISPLAY_DIR=
}

picture() { import -window root "$1" 2>/dev/null; }

# Waits until the window shows something and has stopped changing, and keeps its picture.
# wait_until_drawn FILE PID: fails when the process ends or nothing is drawn in 60 seconds.
wait_until_drawn() {
  local file=$1 pid=$2 before="" now colours
  for _ in $(seq 120); do
    sleep 0.5
    kill -0 "$pid" 2>/dev/null || return 1
    picture "$file" || continue
    colours=$(identify -format '%k' "$file" 2>/dev/null || echo 0)
    now=$(identify -format '%#' "$file" 2>/dev/null || true)
    # An empty display has one colour, an unpainted window a few; text alone brings dozens.
    [ "$colours" -ge 32 ] && [ "$now" = "$before" ] && return 0
    before=$now
  done
  return 1
}
