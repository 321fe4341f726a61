//! The sandbox switch (REQ SW-1): `--sandbox on|off`, `KOTAK_SANDBOX`, `CC_SERVER_SANDBOX`.
//!
//! The switch is an opt-out, not an enabler: `on` means "wrap where the host offers a backend".
//! It never changes what an explicitly named backend means (REQ SW-2, SW-3).

use crate::error::{Coded, Fix};
use std::ffi::OsString;
use std::fmt;

/// Whether sessions that name no backend are wrapped where the host can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The default.
    On,
    /// The operator opted out.
    Off,
}

impl Switch {
    /// The word that sets it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Where the switch was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchSource {
    /// `--sandbox`.
    Flag,
    /// `KOTAK_SANDBOX`.
    Variable,
    /// `CC_SERVER_SANDBOX`, the old name.
    OldVariable,
    /// Nowhere.
    Default,
}

/// The environment variable.
pub const SWITCH_VARIABLE: &str = "KOTAK_SANDBOX";
/// Its old name, still accepted.
pub const OLD_SWITCH_VARIABLE: &str = "CC_SERVER_SANDBOX";

impl fmt::Display for SwitchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--sandbox",
            Self::Variable => SWITCH_VARIABLE,
            Self::OldVariable => OLD_SWITCH_VARIABLE,
            Self::Default => "default",
        })
    }
}

/// The switch and where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SwitchSetting {
    /// The switch.
    pub switch: Switch,
    /// Where it was set.
    pub source: SwitchSource,
}

/// A value that is neither `on` nor `off`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{source_name} is \"{value}\", but only \"on\" and \"off\" are values of the sandbox switch"
)]
pub struct SwitchError {
    /// The flag or variable.
    pub source_name: SwitchSource,
    /// Its value, as far as it can be shown.
    pub value: String,
}

impl Coded for SwitchError {
    fn code(&self) -> &'static str {
        "SANDBOX_SWITCH_INVALID"
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self.source_name {
            SwitchSource::Flag | SwitchSource::Default => Fix::words("Use --sandbox on."),
            SwitchSource::Variable | SwitchSource::OldVariable => {
                let name = self.source_name;
                Fix::command(
                    format!("Set {name} to \"on\", or unset it to take the default, which is on."),
                    format!("unset {name}"),
                )
            }
        })
    }
}

/// Decides the switch (REQ SW-1). The flag wins over either variable, the new variable over the
/// old one; whatever loses is not looked at. Empty is a value like any other, and an error.
///
/// # Errors
/// The value that decides is neither `on` nor `off`.
pub fn resolve_switch(
    flag: Option<&str>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<SwitchSetting, SwitchError> {
    if let Some(value) = flag {
        return parse(value, SwitchSource::Flag);
    }
    let variables = [
        (SWITCH_VARIABLE, SwitchSource::Variable),
        (OLD_SWITCH_VARIABLE, SwitchSource::OldVariable),
    ];
    for (name, source) in variables {
        if let Some(value) = variable(name) {
            return parse(&value.to_string_lossy(), source);
        }
    }
    Ok(SwitchSetting {
        switch: Switch::On,
        source: SwitchSource::Default,
    })
}

fn parse(value: &str, source: SwitchSource) -> Result<SwitchSetting, SwitchError> {
    match value {
        "on" => Ok(SwitchSetting {
            switch: Switch::On,
            source,
        }),
        "off" => Ok(SwitchSetting {
            switch: Switch::Off,
            source,
        }),
        other => Err(SwitchError {
            source_name: source,
            value: other.escape_debug().take(80).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        flag: Option<&str>,
        new: Option<&str>,
        old: Option<&str>,
    ) -> Result<SwitchSetting, SwitchError> {
        resolve_switch(flag, &|name| match name {
            SWITCH_VARIABLE => new.map(OsString::from),
            OLD_SWITCH_VARIABLE => old.map(OsString::from),
            _ => None,
        })
    }

    fn setting(switch: Switch, source: SwitchSource) -> Result<SwitchSetting, SwitchError> {
        Ok(SwitchSetting { switch, source })
    }

    // REQ SW-1
    #[test]
    fn the_switch_is_on_by_default() {
        assert_eq!(
            resolve(None, None, None),
            setting(Switch::On, SwitchSource::Default)
        );
    }

    // REQ SW-1
    #[test]
    fn the_flag_wins_over_both_variables_and_the_new_name_over_the_old() {
        let (on, off) = (Some("on"), Some("off"));
        assert_eq!(
            resolve(on, off, off),
            setting(Switch::On, SwitchSource::Flag)
        );
        assert_eq!(
            resolve(off, on, on),
            setting(Switch::Off, SwitchSource::Flag)
        );
        assert_eq!(
            resolve(None, off, on),
            setting(Switch::Off, SwitchSource::Variable)
        );
        assert_eq!(
            resolve(None, None, off),
            setting(Switch::Off, SwitchSource::OldVariable)
        );
        assert_eq!(
            resolve(None, None, on),
            setting(Switch::On, SwitchSource::OldVariable)
        );
    }

    // REQ SW-1
    #[test]
    fn a_losing_variable_is_not_looked_at() {
        assert_eq!(
            resolve(Some("on"), Some("broken"), Some("broken")),
            setting(Switch::On, SwitchSource::Flag)
        );
    }

    // REQ SW-1
    #[test]
    fn any_other_value_is_a_clear_error_wherever_it_stands() {
        for value in ["", "ON", "true", "1", " on", "off\n", "auto", "none"] {
            for (result, source) in [
                (resolve(Some(value), None, None), SwitchSource::Flag),
                (
                    resolve(None, Some(value), Some("on")),
                    SwitchSource::Variable,
                ),
                (resolve(None, None, Some(value)), SwitchSource::OldVariable),
            ] {
                let error = result.expect_err(value);
                assert_eq!(error.source_name, source);
                let problem = error.problem();
                assert_eq!(problem.code, "SANDBOX_SWITCH_INVALID");
                assert!(
                    problem.message.starts_with(&source.to_string()),
                    "{}",
                    problem.message
                );
                assert!(
                    !problem.message.contains('\n'),
                    "control characters are escaped"
                );
                // REQ SW-3: no fix offers the opt-out.
                let fix = problem.fix.expect("a fix");
                assert!(
                    !format!("{} {:?}", fix.text, fix.command).contains("off"),
                    "{fix:?}"
                );
            }
        }
    }

    #[test]
    fn a_value_that_is_not_unicode_is_an_error_too() {
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStringExt as _;
            let error = resolve_switch(None, &|name| {
                (name == SWITCH_VARIABLE).then(|| OsString::from_vec(vec![b'o', 0xff]))
            });
            assert_eq!(
                error.expect_err("not on").source_name,
                SwitchSource::Variable
            );
        }
    }
}
