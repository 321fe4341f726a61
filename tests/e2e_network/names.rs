//! Names that are written to deceive, as the window draws them (REQ EG-11, UI-5, UI-8): nothing in
//! them is invisible, reorders what stands beside it, or passes for something else.

use crate::questions::{Asking, REFUSED};
use kotak_tests::net::body::hex;
use kotak_tests::net::world;
use serde_json::{Value, json};

/// Everything that the sidebar and the inspector say or draw: texts, drawn attributes, titles and
/// labels. The characters among it that hide or reorder.
const HIDDEN: &str = "
    const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]/u;
    const found = [];
    for (const place of document.querySelectorAll('aside, aside *')) {
        const texts = ['title', 'aria-label', 'data-text', 'value'].map(name => place.getAttribute(name) ?? '');
        for (const node of place.childNodes) if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
        for (const text of texts) if (hidden.test(text)) found.push(escape(text));
    }
    return found;
";

/// What sticks out of the inspector, or is wider than its place.
const TOO_WIDE: &str = "
    const found = [];
    const inspector = document.querySelector('aside.inspector');
    const edge = inspector.getBoundingClientRect().right + 1;
    for (const place of inspector.querySelectorAll('*')) {
        const style = getComputedStyle(place);
        if (style.clipPath !== 'none' || place.closest('.uplot, .cut')) continue;
        if (place.getBoundingClientRect().right > edge) found.push(`${place.tagName} ${place.className} sticks out`);
        if (style.overflowX === 'auto' && place.scrollWidth > place.clientWidth + 1) found.push(`${place.tagName} ${place.className} scrolls`);
    }
    return found;
";

async fn list(asking: &Asking, script: &str) -> Vec<String> {
    let value = asking.panel.window.script(script, Vec::new()).await;
    serde_json::from_value(value).expect("texts")
}

#[track_caller]
fn is_empty(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_letters_that_look_like_others_says_so() {
    // REQ EG-11, UI-8: homographs; punycode beside the name
    // The first letter is Cyrillic.
    let host = world().name("xn--pple-43d.names-one.net");
    let target = format!("{host}:80");
    let asking = Asking::open().await;
    let session = asking.session().await;
    let attempt = asking.fetch(&session, host).await;
    let prompt = asking.card(&target).await;
    let card = format!("[data-prompt='{prompt}']");
    let window = &asking.panel.window;
    window.says(&format!("{card} .host"), &target).await;
    window
        .says(&format!("{card} .reads"), "\\u{430}pple.names-one.net")
        .await;
    window.says(&format!("{card} mark"), "\\u{430}").await;
    window
        .says(&format!("{card} .note"), "Mixes Latin and Cyrillic letters")
        .await;
    asking.picture("question-homograph").await;
    asking.answer(&prompt, "deny").await;
    assert_eq!(asking.end(attempt).await, REFUSED);
    // In the lists the ASCII form stands, underlined.
    asking.activity(&[&target, "you answered no"]).await;
    let underlined = format!(
        "return [...document.querySelectorAll('aside .foreign')] \
         .some(place => place.textContent.includes('{target}'))"
    );
    window.until("the underlined name", &underlined).await;
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_as_long_as_names_get_is_there_whole_and_its_end_is_never_cut_off() {
    // REQ UI-8: very long names
    let tail = "names-two.net";
    let long = format!("login.bank.example.{0}.{0}.{0}.{tail}", "a".repeat(63));
    let host = format!("{}{long}", "b.".repeat((253 - long.len()) / 2));
    let target = format!("{host}:80");
    world().names.set(&host, &[kotak_tests::net::PUBLIC]);
    let asking = Asking::open().await;
    let session = asking.session().await;
    let attempt = asking.fetch(&session, &host).await;
    // The card has the whole of it.
    let prompt = asking.card(&target).await;
    is_empty("too wide", &list(&asking, TOO_WIDE).await);
    asking.picture("question-long").await;
    // Folded to a row, and in the sidebar, the end of the name is in sight.
    let second = asking
        .fetch(&session, world().name("second.names-two.net"))
        .await;
    let row = "[data-testid=prompt-row]";
    asking.panel.window.click(row).await;
    let in_sight = "
        const box = document.querySelector('[data-testid=prompt-row] .tail').getBoundingClientRect();
        const row = document.querySelector('[data-testid=prompt-row]').getBoundingClientRect();
        const text = document.querySelector('[data-testid=prompt-row] .tail').dataset.text;
        return [text, box.left >= row.left && box.right <= row.right && box.width > 0];
    ";
    let seen = asking.panel.window.script(in_sight, Vec::new()).await;
    assert!(
        seen[0]
            .as_str()
            .is_some_and(|text| text.ends_with(&format!("{tail}:80"))),
        "{seen}"
    );
    assert_eq!(seen[1], json!(true), "the end of the name is cut off");
    is_empty("too wide", &list(&asking, TOO_WIDE).await);
    asking.picture("question-long-row").await;
    asking.answer_for("second.names-two.net:80", "deny").await;
    assert_eq!(asking.end(second).await, REFUSED);
    asking.answer(&prompt, "allowOnce").await;
    assert_eq!(asking.end(attempt).await, format!("hello from {host}"));
    is_empty("too wide", &list(&asking, TOO_WIDE).await);
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hides_or_reorders_is_drawn_so_that_it_can_be_seen() {
    // REQ EG-11, UI-5, UI-8: zero-width and right-to-left characters, in names and in programs
    let host = world().name("plain.names-three.net");
    let asking = Asking::open().await;
    // A folder and a command line of that kind too.
    let session = asking.session_in("wo\u{202e}kr\u{200b}").await;
    for (name, escaped) in [
        ("pla\u{200b}in.names-three.net", "pla\\xe2\\x80\\x8bin."),
        ("\u{202e}nialp.names-three.net", "\\xe2\\x80\\xaenialp."),
    ] {
        let job = json!({ "op": "socks", "id": 0, "hex": hex(name.as_bytes()), "port": 443 });
        let script = format!(
            "echo '{job}' | python3 '{}/driver.py' | tail -n 1",
            asking.panel.stage.work().display()
        );
        let attempt = asking.run(&session, &script).await;
        let end: Value = serde_json::from_str(&asking.end(attempt).await).expect("an answer");
        assert_ne!(end["code"], json!(0), "{name:?}: {end}");
        asking.nothing_is_asked().await;
        asking.activity(&[escaped, "not a host and port"]).await;
    }
    is_empty("hidden", &list(&asking, HIDDEN).await);

    let script = format!(
        "bash -c 'exec -a \"$0\" curl -sS -f -A \"$0\" http://{host}/' \"$(printf 'cu\\342\\200\\256lr\\342\\200\\213')\""
    );
    let attempt = asking.run(&session, &script).await;
    let prompt = asking.card(&format!("{host}:80")).await;
    let command = format!("[data-prompt='{prompt}'] .command");
    asking
        .panel
        .window
        .says(
            &command,
            "cu\\u{202e}lr\\u{200b} -sS -f -A cu\\u{202e}lr\\u{200b}",
        )
        .await;
    let facts = format!("[data-prompt='{prompt}'] dl");
    asking
        .panel
        .window
        .says(&facts, "wo\\u{202e}kr\\u{200b}")
        .await;
    is_empty("hidden", &list(&asking, HIDDEN).await);
    asking.picture("question-hidden").await;
    asking.answer(&prompt, "allowSession").await;
    assert_eq!(asking.end(attempt).await, format!("hello from {host}"));
    asking.activity(&[host, "your rule"]).await;
    is_empty("hidden", &list(&asking, HIDDEN).await);
    asking.close().await;
}
