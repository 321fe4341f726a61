//! Programs that want a terminal.

use crate::Work;

#[test]
fn vim_edits_a_file_with_swap_backup_and_undo_files() {
    Work::new(&["vim"], "seq 100 > text")
        // Undo files hold times.
        .volatile(&[".un~"])
        .is_the_same(
            "vim -es -u NONE -i NONE +'set backup writebackup undofile undodir=. directory=. backupdir=.' \
             +'%s/5/five/g' +'normal Go last' +'w' +'w! second' +'q' text; cat text | tail -2; ls -A",
        );
}

#[test]
fn vim_edits_a_file_in_a_terminal() {
    Work::new(&["vim", "script"], "seq 10 > text").is_the_same(
        "printf ':%%s/1/one/g\\r:wq\\r' | TERM=xterm script -qec 'vim -u NONE -i NONE -n text' /dev/null >/dev/null; cat text",
    );
}

#[test]
fn tmux_runs_a_shell_in_a_terminal() {
    Work::new(&["tmux", "script"], "true").is_the_same(
        "export TERM=xterm; unset TMUX; \
         script -qec \"tmux -f /dev/null -S $PWD/socket new-session -x 80 -y 24 'tty >/dev/null && echo inside > made'\" /dev/null >/dev/null; \
         tmux -f /dev/null -S $PWD/socket new-session -d -x 80 -y 24 'echo second > again; sleep 5'; \
         for i in 1 2 3 4 5 6 7 8 9 10; do [ -s again ] && break; sleep 0.2; done; \
         tmux -S $PWD/socket kill-server; cat made again; rm -f socket",
    );
}
