//! `kotak probe`.

use crate::failure::{Failure, UNAVAILABLE};
use crate::launch::Start;
use crate::session::by_signal;
use crate::text::write_result;
use crate::{Context, launch};
use kotak_engine::backend::SandboxBackend;
use kotak_engine::probe::report_text;

/// Shows the host report; 0 when native is available.
pub(crate) async fn report(context: &Context, json: bool) -> Result<u8, Failure> {
    let mut signals = launch::signals()?;
    let engine = match launch::start(context, &mut signals).await? {
        Start::Engine(engine) => engine,
        Start::Signal(number) => return Ok(by_signal(number)),
    };
    let host = engine.host();
    let text = if json {
        serde_json::to_string_pretty(&*host).map_err(|error| {
            Failure::engine("REPORT_UNWRITABLE", "cannot write the report", &error)
        })? + "\n"
    } else {
        let text = report_text(&host);
        if text.ends_with('\n') {
            text
        } else {
            text + "\n"
        }
    };
    write_result(&text)
        .map_err(|error| Failure::engine("REPORT_UNWRITABLE", "cannot write the report", &error))?;
    engine.shutdown().await;
    let available = host
        .backend(SandboxBackend::Native)
        .is_some_and(|native| native.available);
    Ok(if available { 0 } else { UNAVAILABLE })
}
