//! Ending this process without the handlers of the C library.
#![expect(unsafe_code, reason = "_exit is a C function")]

/// Ends the process at once (`_exit(2)`). What atexit(3) handlers would do is left out: WebKitGTK's
/// can wait for ever for its own threads, and a panel that does not go keeps the next from opening.
/// What is to be kept must be written before.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number, and never returns.
    unsafe { libc::_exit(code) }
}
