#!/usr/bin/env bash
# Draws the picture files from the two SVG sources. Needs chromium and imagemagick.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each source once at 1024 pixels; the smaller sizes divide it evenly.
for name in kotak kotak-small; do
  printf '<!doctype html><style>html,body{margin:0;background:transparent}svg{display:block;width:1024px;height:1024px}</style>%s' \
    "$(cat $name.svg)" >"$work/$name.html"
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --disable-background-networking --disable-component-update --no-first-run \
    --default-background-color=00000000 --window-size=1024,1024 \
    --screenshot="$work/$name.png" "file://$work/$name.html" >/dev/null 2>&1
done
# size SOURCE PIXELS FILE
size() { convert "$work/$1.png" -filter Box -resize "$2x$2" -strip -define png:color-type=6 "PNG32:$3"; }

size kotak-small 32 32x32.png
size kotak 128 128x128.png
size kotak 256 128x128@2x.png
size kotak 512 icon.png

for pixels in 16 32 64; do size kotak-small $pixels "$work/$pixels.png"; done
convert "$work/kotak-small.png" -filter Lanczos -resize 24x24 -strip "PNG32:$work/24.png"
convert "$work/kotak-small.png" -filter Lanczos -resize 48x48 -strip "PNG32:$work/48.png"
convert "$work/16.png" "$work/24.png" "$work/32.png" "$work/48.png" 128x128@2x.png icon.ico

# An .icns file is a header and, for each picture, a four-letter type, a length and the PNG.
big_endian() { printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
chunk() {
  printf '%s' "$1"
  big_endian $((8 + $(stat -c %s "$2")))
  cat "$2"
}
{
  chunk ic11 "$work/32.png"
  chunk ic12 "$work/64.png"
  chunk ic07 128x128.png
  chunk ic08 128x128@2x.png
  chunk ic09 icon.png
} >"$work/body"
{
  printf 'icns'
  big_endian $((8 + $(stat -c %s "$work/body")))
  cat "$work/body"
} >icon.icns
