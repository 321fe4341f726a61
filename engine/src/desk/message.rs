//! What the two ends say.

use super::Reply;
use crate::api::{ActivityRow, Answer, AnswerScope, FoldedPrompts, Prompt};
use serde::{Deserialize, Serialize};

/// Of these messages. Ends that differ part.
pub(super) const VERSION: u32 = 2;

/// From a guest to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum ToHost {
    /// The first message.
    Hello { version: u32 },
    /// A question is new or changed.
    Prompt { prompt: Box<Prompt> },
    /// A question is no more.
    Gone { id: String },
    /// Questions that are not shown one by one.
    Folded { folded: FoldedPrompts },
    /// Live rows.
    Rows {
        rows: Vec<ActivityRow>,
        skipped: u64,
    },
    /// What came of a request.
    Reply { request: u64, reply: Reply },
}

/// From the host to a guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum ToGuest {
    /// The first message.
    Welcome { version: u32 },
    /// An answer of the operator; wants a reply.
    Answer {
        request: u64,
        id: String,
        answer: Answer,
        scope: AnswerScope,
    },
    /// Somebody looks at a question; wants a reply.
    Hold { request: u64, id: String },
    /// Nobody looks any more.
    Release { id: String },
}
