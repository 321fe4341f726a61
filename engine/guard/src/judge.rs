//! Judges of content: whether a file that a program inside wants to put in place can make a program
//! on the host do something. Pure: bytes in, a verdict with its reason out.

pub mod git;
