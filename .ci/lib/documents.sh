# Documents must name only what exists.
# shellcheck shell=bash

# Folders and files in README's map, pictures, links between documents, and every test that
# docs/security.md cites.
documents_are_true() {
  local bad=0 file path name
  for file in README.md docs/*.md CHANGELOG.md; do
    while IFS= read -r path; do
      case $path in http*://* | '#'* | mailto:*) continue ;; esac
      [ -e "$(dirname "$file")/${path%%#*}" ] || {
        echo "$file links to ${path}, which does not exist"
        bad=1
      }
    done < <(grep -oE '\]\([^)]+\)' "$file" | sed 's/^](//; s/)$//')
  done
  while IFS= read -r path; do
    [ -e "$path" ] || {
      echo "README.md maps $path, which does not exist"
      bad=1
    }
  done < <(sed -n '/^## Map of the code/,/^## /p' README.md | grep -oE '^\| `[^`]+`' | sed 's/^| `//; s/`$//')
  while IFS= read -r name; do
    git grep -qE "fn $name\b" -- '*.rs' || git grep -qF "$name" -- 'ui/**/*.ts' 'ui/**/*.js' || {
      echo "docs/security.md cites the test $name, which does not exist"
      bad=1
    }
  done < <(grep -oE '`[a-z0-9]+(_[a-z0-9]+){2,}`' docs/security.md | tr -d '`' | sort -u)
  return "$bad"
}
