//! Names and paths under rules. REQ BW-5, SP-1.

mod foreign;
mod git;
mod names;
mod native;
mod paths;
mod programs;
mod race;
mod refusals;
