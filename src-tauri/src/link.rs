//! Links that terminal output may open: http and https only, checked here again, whatever the
//! window checked (launch case: a `file:` or `vscode:` link).

use kotak_engine::error::{Fix, Problem};
use tauri::Url;

/// The parsed address when it may be opened.
pub(crate) fn web_link(text: &str) -> Result<Url, Problem> {
    let refused = |why: &str| Problem {
        code: "LINK_REFUSED".to_owned(),
        message: format!("this link is not opened: {why}"),
        causes: Vec::new(),
        fix: Some(Fix::words(
            "copy the text and open it yourself, if you trust it",
        )),
    };
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("it contains control characters or spaces"));
    }
    let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => {}
        other => return Err(refused(&format!("\"{other}:\" is not http or https"))),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refused("it names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(
            "it carries a user name or password, which hides the real host",
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::web_link;

    #[test]
    fn http_and_https_links_open() {
        for link in [
            "https://example.com/a?b#c",
            "http://[::1]:8080/",
            "https://bücher.example/",
        ] {
            assert!(web_link(link).is_ok(), "{link}");
        }
    }

    #[test]
    fn an_international_name_is_opened_in_its_punycode_form() {
        let url = web_link("https://bücher.example/").expect("a web link");
        assert_eq!(url.host_str(), Some("xn--bcher-kva.example"));
    }

    #[test]
    fn other_schemes_and_disguised_hosts_are_refused() {
        for link in [
            "file:///etc/passwd",
            "vscode://x",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://good.example@evil.example/",
            "https://",
            "http://a b/",
            "https://a\u{7}b/",
            "-https://x",
            "example.com",
        ] {
            let problem = web_link(link).expect_err(link);
            assert_eq!(problem.code, "LINK_REFUSED", "{link}");
        }
    }
}
