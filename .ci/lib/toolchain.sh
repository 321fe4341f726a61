# Rust and Node.js: what is there when it is new enough, else the distribution's, else npm's.
# shellcheck shell=bash

RUST_WANTED=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
NODE_VERSION=24.22.1
NPM_VERSION=11.21.2
NODE_DIR=$TOOLS/node-$NODE_VERSION

# Puts what an earlier set-up installed on PATH. Cheap; every script calls it.
use_toolchain() {
  local dir
  # Newest last, so that it stands first on PATH; a toolchain of the user's own is preferred.
  rust_is_new_enough || for dir in /usr/lib/rust-*/bin "$HOME/.cargo/bin"; do
    [ -x "$dir/cargo" ] && PATH=$dir:$PATH
    if rust_is_new_enough; then break; fi
  done
  node_is_new_enough || if [ -x "$NODE_DIR/node_modules/.bin/node" ]; then
    PATH=$NODE_DIR/node_modules/.bin:$PATH
  fi
  PATH=$TOOLS/cargo/bin:$PATH
  export PATH
}

rust_version() { { rustc --version 2>/dev/null || true; } | sed -n 's/^rustc \([0-9.]*\).*/\1/p'; }

rust_is_new_enough() {
  have cargo && have rustc || return 1
  version_at_least "$(rust_version)" "$RUST_WANTED"
}

# Vite and its tools accept Node.js 20.19 and later of that line, and 22.12 or newer.
node_version_is_new_enough() {
  local major=${1%%.*}
  [ "$major" = 20 ] && { version_at_least "$1" 20.19.0; return; }
  version_at_least "$1" 22.12.0
}

node_is_new_enough() {
  have node && have npm || return 1
  node_version_is_new_enough "$(node --version 2>/dev/null | tr -d v)"
}

# The first of the distribution's Rusts that is new enough, as a list of packages.
rust_packages() {
  local name
  if version_at_least "$(upstream_version rustc)" "$RUST_WANTED"; then
    printf '%s\n' rustc cargo rustfmt rust-clippy
    return
  fi
  if version_at_least "$(upstream_version rustc-web)" "$RUST_WANTED"; then
    printf '%s\n' rustc-web cargo-web rustfmt-web rust-web-clippy
    return
  fi
  for name in $(apt-cache search --names-only '^rustc-1\.[0-9]+$' | sed 's/ .*//' | sort -rV); do
    version_at_least "${name#rustc-}" "$RUST_WANTED" || break
    printf '%s\n' "$name" "cargo-${name#rustc-}" "rustfmt-${name#rustc-}" "rust-${name#rustc-}-clippy"
    return
  done
}

upstream_version() {
  local version
  version=$(candidate "$1" | sed 's/^[0-9]*://; s/[^0-9.].*//')
  printf '%s' "${version:-0}"
}

ensure_rust() {
  rust_is_new_enough && return 0
  local found packages=()
  found=$(rust_version)
  found=${found:+ (found $found)}
  is_debian_like || die "Rust $RUST_WANTED or newer is needed$found. Install it (for example with rustup) and run this again."
  can_be_root || die "Rust $RUST_WANTED or newer is needed$found, and neither root nor sudo is at hand.
Install it (for example with rustup, which needs no root) and run this again."
  say "Rust $RUST_WANTED or newer is needed$found; asking apt what this distribution has."
  refresh_apt
  mapfile -t packages < <(rust_packages)
  [ "${#packages[@]}" -gt 0 ] || die "this distribution has no Rust $RUST_WANTED or newer.
Install one (for example with rustup) and run this again."
  # Formatter and linter are named differently from release to release: take those that exist.
  local name wanted=()
  for name in "${packages[@]}"; do
    [ -n "$(candidate "$name")" ] && wanted+=("$name")
  done
  install_packages "the compiler" "${wanted[@]}"
  hash -r
  use_toolchain
  rust_is_new_enough || die "after installing ${wanted[*]}, 'rustc --version' on PATH is still $(rust_version).
An older Rust stands before it on PATH: update that one, or take it off PATH."
}

ensure_node() {
  node_is_new_enough && return 0
  if is_debian_like && ! { have node && have npm; }; then
    can_be_root || die "Node.js 20.19 or newer and npm are needed, and neither root nor sudo is at hand."
    say "Node.js and npm are needed; asking apt what this distribution has."
    refresh_apt
    install_packages "to build the window's pages" nodejs npm
    hash -r
    node_is_new_enough && return 0
  fi
  have npm || die "Node.js 20.19 or newer and npm are needed. Install them and run this again."
  local arch
  case $(uname -m) in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) die "Node.js 20.19 or newer is needed, and npm has none for $(uname -m). Install it and run this again." ;;
  esac
  say ""
  say "Node.js here is $(node --version), and 20.19 or newer is needed."
  say "Kotak will now install, with npm, into $NODE_DIR:"
  say "  node-linux-$arch $NODE_VERSION"
  say "  npm $NPM_VERSION"
  mkdir -p "$NODE_DIR"
  npm install --prefix "$NODE_DIR" --no-fund --no-audit --loglevel=error \
    "node-linux-$arch@$NODE_VERSION" "npm@$NPM_VERSION"
  # The package for one architecture declares no command: name it where npm's own commands are.
  ln -sf "../node-linux-$arch/bin/node" "$NODE_DIR/node_modules/.bin/node"
  hash -r
  use_toolchain
  node_is_new_enough || die "the Node.js that npm installed does not run: $NODE_DIR/node_modules/.bin/node"
}
