//! What git acts on: no panic, a harmless configuration stays so with more that is harmless and
//! becomes harmful with a program, and what lies in the target of a link is judged.
#![no_main]

use kotak_guard::judge::git::{GitPlace, config, config_change, gitlink, place};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if config(bytes).is_ok() {
        let with = |more: &str| [bytes, more.as_bytes()].concat();
        assert!(config(&with("\n[user]\n\tname = x\n")).is_ok());
        for program in ["\n[core]\n\tpager = x\n", "\n[filter \"x\"]\n\tclean = x\n"] {
            assert!(config(&with(program)).is_err());
            assert!(config_change(bytes, &with(program), &[]).is_err());
            assert!(config_change(&with(program), &with(program), &[]).is_ok());
        }
    }
    let link = [b"gitdir: p/.git/", bytes, b"\n"].concat();
    if let Ok(path) = gitlink(&link) {
        let below = |name: &'static [u8]| {
            let mut components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
            components.retain(|name| !name.is_empty());
            components.push(name);
            place(&components)
        };
        assert_eq!(below(b"config"), GitPlace::Config);
        assert_eq!(below(b"hooks"), GitPlace::HooksDir);
    }
    let components: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').collect();
    let _judged = place(&components);
});
