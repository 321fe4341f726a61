//! Golden files: committed expectations that a test compares whole.

use std::path::PathBuf;

/// Compares with `engine/tests/golden/<name>`. `KOTAK_BLESS=1` writes the file instead, for a
/// person to read before committing it.
pub(crate) fn check(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("KOTAK_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return;
    }
    let wanted = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (line, (wanted, found)) in wanted.lines().zip(found.lines()).enumerate() {
        assert_eq!(wanted, found, "{name}, line {}", line + 1);
    }
    assert_eq!(
        wanted.lines().count(),
        found.lines().count(),
        "{name}: length"
    );
}
