# The two checkers of dependencies, built from crates.io once and kept outside the clone.
# shellcheck shell=bash

CARGO_DENY_VERSION=0.20.2
CARGO_MACHETE_VERSION=0.9.2

cargo_tool_is_there() {
  [ -x "$TOOLS/cargo/bin/$1" ] && [ -e "$TOOLS/cargo/$1-$2" ]
}

# ensure_cargo_tool NAME VERSION: unoptimised, since building costs more than running ever will.
ensure_cargo_tool() {
  cargo_tool_is_there "$1" "$2" && return 0
  say ""
  say "Kotak will now build $1 $2 from crates.io into $TOOLS/cargo (once, a few minutes)."
  local scratch
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/kotak-tool.XXXXXX")
  if ! (
    cd /
    env -u RUSTFLAGS CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
      CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false \
      CARGO_PROFILE_RELEASE_STRIP=symbols \
      cargo install "$1" --version "=$2" --locked --quiet --force \
      --root "$TOOLS/cargo" --target-dir "$scratch"
  ); then
    rm -rf "$scratch"
    die "could not build $1 $2 from crates.io"
  fi
  rm -rf "$scratch"
  : >"$TOOLS/cargo/$1-$2"
}

ensure_cargo_tools() {
  ensure_cargo_tool cargo-machete "$CARGO_MACHETE_VERSION"
  ensure_cargo_tool cargo-deny "$CARGO_DENY_VERSION"
}
