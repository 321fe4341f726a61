//! Text laid out for a screen: what may be cut, what has to stand whole, and what goes first when
//! there are too few rows. Pure.

/// A group of rows of a page.
#[derive(Debug)]
pub(crate) struct Part {
    /// How soon it goes when rows are few: the highest first; 0 never goes.
    rank: u8,
    rows: Vec<String>,
    /// What stands for it when nothing else can go.
    short: Option<Vec<String>>,
}

impl Part {
    /// One row; what does not fit is cut off at its end.
    pub(crate) fn line(rank: u8, text: &str, width: usize) -> Self {
        Self {
            rank,
            rows: vec![start(text, width)],
            short: None,
        }
    }

    /// Rows that were laid out already.
    pub(crate) fn rows(rank: u8, rows: Vec<String>) -> Self {
        Self {
            rank,
            rows,
            short: None,
        }
    }

    /// Something that names a host, whole, after a label: on its row where both fit, on rows of its
    /// own below it otherwise. Never goes.
    pub(crate) fn whole(label: &str, name: &str, width: usize) -> Self {
        let row = format!("{label}{name}");
        if columns(&row) <= width {
            return Self::rows(0, vec![row]);
        }
        let mut rows = vec![start(label.trim_end(), width)];
        let wrapped = wrap(name, width.saturating_sub(INDENT.len()));
        rows.extend(wrapped.into_iter().map(|row| format!("{INDENT}{row}")));
        Self::rows(0, rows)
    }

    /// The same, but when rows are few one row has to do: then the end stays, which says whose a
    /// name is.
    pub(crate) fn named(label: &str, name: &str, width: usize) -> Self {
        let room = width.saturating_sub(columns(label));
        Self {
            short: Some(vec![format!("{label}{}", end(name, room))]),
            ..Self::whole(label, name, width)
        }
    }
}

const INDENT: &str = "    ";

/// The rows of a page of so many; nothing when even the least does not fit.
pub(crate) fn fit(mut parts: Vec<Part>, height: usize) -> Option<Vec<String>> {
    let total = |parts: &[Part]| parts.iter().map(|part| part.rows.len()).sum::<usize>();
    while total(&parts) > height {
        let ranks = parts.iter().map(|part| part.rank);
        let Some(rank) = ranks.max().filter(|rank| *rank > 0) else {
            break;
        };
        parts.retain(|part| part.rank != rank);
    }
    // From the bottom: what stands first matters most.
    for place in (0..parts.len()).rev() {
        if total(&parts) <= height {
            break;
        }
        if let Some(part) = parts.get_mut(place)
            && let Some(short) = part.short.take()
            && short.len() < part.rows.len()
        {
            part.rows = short;
        }
    }
    (total(&parts) <= height).then(|| parts.into_iter().flat_map(|part| part.rows).collect())
}

/// Columns that a character takes at most. Terminals differ about those beyond ASCII, and none
/// draws one in more than two columns: whoever is counted too wide here only breaks a row sooner,
/// while one that is counted too narrow would push the top of a page off the screen.
fn width_of(character: char) -> usize {
    if character.is_ascii() { 1 } else { 2 }
}

/// Columns that a text takes at most.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The start of a text, in so many columns.
pub(crate) fn start(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = taken(text.chars(), width.saturating_sub(width_of('…')));
    kept.push('…');
    kept
}

/// The end of a text, in so many columns.
pub(crate) fn end(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let kept = taken(text.chars().rev(), width.saturating_sub(width_of('…')));
    std::iter::once('…').chain(kept.chars().rev()).collect()
}

fn taken(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut left = width;
    text.take_while(|character| match left.checked_sub(width_of(*character)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    })
    .collect()
}

/// The whole text, in rows of so many columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut row = taken(rest.chars(), width);
        if row.is_empty() {
            // A row that holds no character would never end.
            row.extend(rest.chars().next());
        }
        rest = rest.get(row.len()..).unwrap_or_default();
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_and_wrapped_by_the_columns_that_it_may_take() {
        assert_eq!(start("abcdef", 6), "abcdef");
        assert_eq!(start("abcdefg", 6), "abcd…");
        assert_eq!(end("abcdefg", 6), "…defg");
        assert_eq!(end("漢字漢字.jp", 8), "…字.jp");
        assert_eq!(wrap("漢字ab漢", 4), ["漢字", "ab漢"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"]);
        assert_eq!(wrap("", 4), Vec::<String>::new());
        for width in 0..12 {
            assert_eq!(wrap("a漢b字cdé", width).concat(), "a漢b字cdé");
        }
    }

    #[test]
    fn what_matters_least_goes_first_and_names_stand_to_the_last() {
        let page = || {
            vec![
                Part::line(1, "title", 12),
                Part::whole("to ", "aaaa.bbbb.evil.net", 12),
                Part::line(2, "more", 12),
                Part::named("1 ", "aaaa.bbbb.evil.net", 12),
            ]
        };
        let host = ["to", "    aaaa.bbb", "    b.evil.n", "    et"];
        let pattern = ["1", "    aaaa.bbb", "    b.evil.n", "    et"];
        let all = [&["title"][..], &host, &["more"], &pattern].concat();
        assert_eq!(
            fit(page(), 10),
            Some(all.iter().map(ToString::to_string).collect())
        );
        let no_more = [&["title"][..], &host, &pattern].concat();
        let rows = |rows: &[&str]| Some(rows.iter().map(ToString::to_string).collect());
        assert_eq!(fit(page(), 9), rows(&no_more));
        assert_eq!(fit(page(), 8), rows(&[&host[..], &pattern].concat()));
        assert_eq!(
            fit(page(), 7),
            rows(&[&host[..], &["1 …evil.net"]].concat())
        );
        assert_eq!(fit(page(), 5), fit(page(), 7));
        assert_eq!(fit(page(), 4), None);
    }
}
