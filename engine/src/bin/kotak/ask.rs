//! Questions of a session in its user's terminal, while no window shows them (REQ EG-9).
//!
//! What a program draws must never pass for a question of Kotak's, and what was typed for a
//! program must never answer one: the session is frozen first, the question stands alone on the
//! alternate screen, and only keys that were read when it had stood for long enough to be read
//! count.

use crate::keys::{Keys, Press};
use crate::question::{self, Around, Standing};
use crate::screen::Screen;
use crate::session::Session;
use kotak_engine::api::{Prompt, PromptState};
use kotak_engine::egress::ask::AskEvent;
use kotak_engine::manager::{Engine, SandboxPort};
use nix::sys::termios::{FlushArg, tcflush};
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::UnboundedReceiver;

/// How often a desk that came or went is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the countdown is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(500);

/// This terminal answers the engine's questions for as long as this value lives.
pub(crate) struct Asking<'a> {
    engine: &'a Engine,
    events: UnboundedReceiver<AskEvent>,
}

impl<'a> Asking<'a> {
    /// From now on.
    pub(crate) fn start(engine: &'a Engine) -> Self {
        Self {
            engine,
            events: engine.ask_in_terminal(),
        }
    }

    /// Waits until a question has to be asked here. Dropping the future loses none.
    pub(crate) async fn due(&mut self) {
        loop {
            if !self.engine.is_at_desk() && self.first().is_some() {
                return;
            }
            tokio::select! {
                () = news(&mut self.events) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    fn first(&self) -> Option<Prompt> {
        self.waiting().into_iter().next()
    }

    fn waiting(&self) -> Vec<Prompt> {
        let mut prompts = self.engine.own_prompts();
        prompts.retain(|prompt| prompt.state == PromptState::Waiting);
        prompts
    }

    /// Asks until nothing waits here any more. A session that cannot be frozen is not asked
    /// about: this terminal answers nothing any more, so everything is denied.
    pub(crate) async fn ask(
        &mut self,
        session: &Session<'_>,
        keys: &mut Keys,
        screen: &Screen,
    ) -> io::Result<()> {
        if let Err(problem) = session.manager().suspend(session.id()).await {
            tracing::error!(
                code = problem.code,
                "the session cannot be frozen, so nothing is asked: {}",
                problem.message
            );
            self.engine.terminal_gone();
            return Ok(());
        }
        let asked = self.ask_frozen(keys, screen).await;
        if let Err(problem) = session.manager().resume(session.id()).await {
            tracing::error!(
                code = problem.code,
                "the session cannot go on: {}",
                problem.message
            );
        }
        asked
    }

    async fn ask_frozen(&mut self, keys: &mut Keys, screen: &Screen) -> io::Result<()> {
        let page = screen.open().await?;
        while let Some(prompt) = self.first().filter(|_| !self.engine.is_at_desk()) {
            self.one(&prompt, keys, &page).await?;
        }
        page.close().await
    }

    /// Asks one question until it waits no more.
    async fn one(
        &mut self,
        prompt: &Prompt,
        keys: &mut Keys,
        page: &crate::screen::Page<'_>,
    ) -> io::Result<()> {
        let whole = self.draw(prompt, 0, page).await?;
        // What lies in the terminal was typed before the question could be read; so was what is
        // read from it soon after.
        tcflush(io::stdin(), FlushArg::TCIFLUSH)?;
        let mut standing = Standing::new(Instant::now(), whole);
        let mut draw = tokio::time::interval(DRAW_EVERY);
        loop {
            tokio::select! {
                press = keys.next() => {
                    let Some(Press { at, bytes }) = press else {
                        // The user's terminal is gone: nobody answers.
                        self.engine.terminal_gone();
                        return Ok(());
                    };
                    if let Some(answer) = standing.press(at, &bytes, prompt) {
                        let scope = question::scope(prompt, standing.chosen());
                        match self.engine.answer_prompt(&prompt.id, answer, scope).await {
                            Ok(_) => return Ok(()),
                            // Too early, or it could not be kept: it waits on.
                            Err(problem) => {
                                tracing::info!(code = problem.code, "{}", problem.message);
                            }
                        }
                    }
                }
                _ = draw.tick() => {}
                () = news(&mut self.events) => {}
            }
            let waiting = self.waiting();
            let Some(now) = waiting.iter().find(|other| other.id == prompt.id) else {
                return Ok(());
            };
            if self.engine.is_at_desk() {
                return Ok(());
            }
            let whole = self.draw(now, standing.chosen(), page).await?;
            standing.drawn_again(whole);
        }
    }

    /// Draws a question; whether all of it that an answer needs is in sight.
    async fn draw(
        &self,
        prompt: &Prompt,
        chosen: usize,
        page: &crate::screen::Page<'_>,
    ) -> io::Result<bool> {
        let left = prompt
            .deadline_ms
            .map_or(0, |at| at.saturating_sub(now_ms()).div_ceil(1_000));
        let shown = self.waiting().len().saturating_sub(1);
        let folded: u32 = self
            .engine
            .own_folded()
            .iter()
            .map(|folded| folded.hosts)
            .sum();
        let more = u32::try_from(shown)
            .unwrap_or(u32::MAX)
            .saturating_add(folded);
        let around = Around {
            chosen,
            seconds_left: left,
            more,
        };
        let (text, whole) = question::draw(prompt, around, crate::screen::size());
        page.write(&text).await?;
        Ok(whole)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.engine.terminal_gone();
    }
}

/// Waits until a question is new or changed; for ever once this terminal answers none.
async fn news(events: &mut UnboundedReceiver<AskEvent>) {
    if events.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
