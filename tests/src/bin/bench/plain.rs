//! The bubblewrap command that mounts what a session mounts, without Kotak.

/// Options of the launch's own machinery, with the number of their values.
const MACHINERY: [(&str, usize); 2] = [("--json-status-fd", 1), ("--ro-bind-data", 2)];

/// Turns a session's command line, as its handle shows it, into one that runs `true` under the
/// same mounts: argument blocks spelt out, status channel and guard left away. `None` when the
/// line is not one that this knows.
pub(crate) fn plain_command(shown: &[String]) -> Option<Vec<String>> {
    let marker = shown.iter().position(|arg| is_block(arg))?;
    let (head, blocks) = shown.split_at(marker);
    if blocks.iter().filter(|arg| is_block(arg)).count() != 1 {
        return None;
    }
    let (program, head) = head.split_first()?;
    let own = head.iter().take_while(|arg| *arg != "--");
    let mut command = vec![program.clone()];
    let mut own = own.cloned();
    while let Some(arg) = own.next() {
        if arg == "--args" {
            own.next()?;
            command.extend(without_machinery(blocks.get(1..)?));
        } else {
            command.push(arg);
        }
    }
    command.extend(["--".to_owned(), "/usr/bin/true".to_owned()]);
    Some(command)
}

fn is_block(arg: &str) -> bool {
    arg.starts_with("# --args ")
}

fn without_machinery(args: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some((_, values)) = MACHINERY.iter().find(|(name, _)| name == arg) else {
            kept.push(arg.clone());
            continue;
        };
        for _ in 0..*values {
            rest.next();
        }
        // Permissions belong to the option after them.
        if kept.len() >= 2 && kept.get(kept.len() - 2).is_some_and(|arg| arg == "--perms") {
            kept.truncate(kept.len() - 2);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::plain_command;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_guard_and_the_status_channel_are_left_away_and_the_mounts_stay() {
        let mut shown = words("/usr/bin/bwrap --args 10 -- /proc/self/fd/12 native 13");
        shown.push("# --args 10:".to_owned());
        shown.extend(words(
            "--unshare-pid --json-status-fd 11 --ro-bind /usr /usr --perms 0555 \
             --ro-bind-data 9 /run/kotak/guard --perms 0000 --tmpfs /root/.ssh",
        ));
        let expected = "/usr/bin/bwrap --unshare-pid --ro-bind /usr /usr --perms 0000 --tmpfs \
             /root/.ssh -- /usr/bin/true";
        assert_eq!(plain_command(&shown), Some(words(expected)));
    }

    #[test]
    fn a_line_without_an_argument_block_is_not_known() {
        assert_eq!(plain_command(&words("/usr/bin/bwrap -- true")), None);
    }
}
