//! Hostile configurations, links and places, each by its name, with what git and its users write.

mod against_git;
mod configuration;
mod places;
