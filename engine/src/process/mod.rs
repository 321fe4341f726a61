//! (being built)

#[cfg(target_os = "linux")]
pub mod guard_image;
