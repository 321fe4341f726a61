#!/usr/bin/env bash
# make run: builds the panel and opens it. Without a display it is drawn on a virtual one, its
# picture is kept, and the command that works in this terminal is named.
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$ROOT/.ci/lib/toolchain.sh"
. "$ROOT/.ci/lib/build.sh"
. "$ROOT/.ci/lib/display.sh"

"$ROOT/.ci/setup.sh" run
use_toolchain
build_ui
build_for_use kotak kotak-panel

panel=$TARGET/release/kotak-panel
kotak=$TARGET/release/kotak

if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  step "Opening the window"
  exec "$panel" "$@"
fi

step "No display here (neither DISPLAY nor WAYLAND_DISPLAY is set): drawing the window on a virtual one"
image=$TARGET/kotak-window.png
log=$TARGET/kotak-window.log
group=
finish() {
  # The panel gets the time to end its sessions; what is left of its group goes with it.
  if [ -n "$group" ]; then
    kill -TERM -- "-$group" 2>/dev/null || true
    for _ in $(seq 50); do
      kill -0 -- "-$group" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null || true
  fi
  stop_display
}
trap finish EXIT
trap 'exit 130' INT TERM

start_display 1360x860x24
rm -f "$image"
setsid dbus-run-session -- "$panel" "$@" >"$log" 2>&1 &
group=$!
if ! wait_until_drawn "$image" "$group"; then
  tail -n 40 "$log" >&2
  die "the window was not drawn; its output is in $log"
fi

say "The window was drawn. Its picture: $image"
say ""
say "To work in this terminal, in a sandboxed shell:"
say "  $kotak shell"
say "What this machine can enforce, and how to mend what it lacks:"
say "  $kotak probe"
