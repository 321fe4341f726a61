//! Names and paths under rules. REQ BW-5, SP-1.

mod names;
