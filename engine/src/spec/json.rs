//! Where in a JSON text something stands, so that an error can name the field.

/// The field path at a byte offset, e.g. `bindMounts[2].readOnly`; empty at the top.
pub(super) fn path_at(text: &str, offset: usize) -> String {
    let bytes = text.as_bytes();
    let end = offset.min(bytes.len());
    let mut stack: Vec<Level> = Vec::new();
    let mut at = 0;
    while at < end {
        match bytes.get(at) {
            Some(b'{') => stack.push(Level::Object {
                key: None,
                in_value: false,
            }),
            Some(b'[') => stack.push(Level::Array(0)),
            // The closing bracket itself still belongs to what it closes.
            Some(b'}' | b']') if at + 1 < end => {
                stack.pop();
            }
            Some(b':') => {
                if let Some(Level::Object { in_value, .. }) = stack.last_mut() {
                    *in_value = true;
                }
            }
            Some(b',') => match stack.last_mut() {
                Some(Level::Object { key, in_value }) => {
                    *key = None;
                    *in_value = false;
                }
                Some(Level::Array(index)) => *index += 1,
                None => {}
            },
            Some(b'"') => {
                let start = at + 1;
                at = string_end(bytes, start);
                if let Some(Level::Object {
                    key,
                    in_value: false,
                }) = stack.last_mut()
                {
                    let raw = bytes.get(start..at).unwrap_or_default();
                    *key = Some(String::from_utf8_lossy(raw).into_owned());
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for level in stack {
        match level {
            Level::Array(index) => path.push_str(&format!("[{index}]")),
            Level::Object { key: Some(key), .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
            }
            Level::Object { key: None, .. } => {}
        }
    }
    path
}

enum Level {
    Object { key: Option<String>, in_value: bool },
    Array(usize),
}

/// The index of the closing quote, or the end.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The byte offset of a line and column as serde_json counts them (both from one).
pub(super) fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    before + column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_objects_and_list_elements() {
        let text = r#"{"a": 1, "bindMounts": [{"hostPath": "/x"}, {"readOnly": 7}]}"#;
        let at = text.find('7').unwrap() + 1;
        assert_eq!(path_at(text, at), "bindMounts[1].readOnly");
        assert_eq!(path_at(text, 0), "");
        assert_eq!(path_at(text, text.find('1').unwrap() + 1), "a");
    }

    #[test]
    fn quotes_and_brackets_inside_strings_do_not_count() {
        let text = r#"{"a\"{": "[[", "b": 3}"#;
        assert_eq!(path_at(text, text.find('3').unwrap() + 1), "b");
    }
}
