# The builds of `make run`, `make bench` and `make test`.
# shellcheck shell=bash

# Selecting the whole workspace keeps the features of every dependency equal from call to call,
# so that no dependency is built twice for one profile.
CARGO_SCOPE=(--workspace --locked)

# A name for the present contents of the given files and folders under ui/.
ui_state() {
  (
    cd "$ROOT/ui" || exit
    find "$@" -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 -r sha256sum
  ) | sha256sum | cut -d' ' -f1
}

# Runs a command only when the contents named by STATE were not yet handled.
unless_done() {
  local stamp=$1 state=$2
  shift 2
  [ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && return 0
  rm -f "$stamp"
  "$@" || return
  mkdir -p "$(dirname "$stamp")"
  printf '%s' "$state" >"$stamp"
}

npm_install() {
  local major
  major=$(node --version | sed 's/\..*//')
  unless_done "$ROOT/ui/node_modules/.kotak-installed" \
    "$(ui_state package.json package-lock.json) $major" npm_ci
}
npm_ci() {
  step "npm ci (the window's build tools, from package-lock.json)"
  (cd "$ROOT/ui" && npm ci --no-fund --no-audit --loglevel=error)
}

# Builds ui/dist, which the panel embeds when it is compiled.
build_ui() {
  npm_install || return
  local sources
  mapfile -t sources < <(cd "$ROOT/ui" && find . -mindepth 1 -maxdepth 1 \
    ! -name node_modules ! -name dist ! -name tests ! -name test-results ! -name '.*')
  [ -e "$ROOT/ui/dist/index.html" ] || rm -f "$ROOT/ui/node_modules/.kotak-built"
  unless_done "$ROOT/ui/node_modules/.kotak-built" "$(ui_state "${sources[@]}")" npm_build
}
npm_build() {
  step "Building the window's pages (ui/dist)"
  (cd "$ROOT/ui" && npm run --silent build)
}

# What the tests use: quick to build again.
build_programs() {
  step "Building kotak and the panel"
  cargo build "${CARGO_SCOPE[@]}" --bin kotak --bin kotak-panel
}

# What people use and what is measured: optimised. build_for_use BINARY...
build_for_use() {
  local wanted=() name
  for name; do wanted+=(--bin "$name"); done
  step "Building ${*} (optimised; the first time this takes a few minutes)"
  cargo build "${CARGO_SCOPE[@]}" --release "${wanted[@]}"
}
