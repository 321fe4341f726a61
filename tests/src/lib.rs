//! What the conformance, egress and end-to-end suites share: a staged home directory full of
//! secrets, the `kotak` command driven as a person drives it, a desktop and the real window on it, and a
//! small internet of real servers.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

pub mod command;
pub mod desktop;
pub mod field;
pub mod net;
pub mod panel;
pub mod stage;

pub use command::{Kotak, Outcome};
pub use field::Field;
pub use stage::Stage;
