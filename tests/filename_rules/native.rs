//! What the guard opens for a program is as if the program had opened it.

use kotak_tests::field::{Field, Rules};
use kotak_tests::stage::is_root;

/// Runs a Python program under the rules and without a sandbox; both must print the same.
#[track_caller]
fn same_python(program: &str) -> String {
    let field = Field::new();
    std::fs::write(field.tools().join("program.py"), program).expect("a program");
    let line = format!("exec python3 -B '{}/program.py'", field.tools().display());
    let control = field.outside(&line);
    assert!(control.succeeded(), "the control: {control:?}");
    field.prepare("chmod -R u+rwx . && find . -mindepth 1 -delete");
    let run = field.shell(&Rules::names(), &line);
    assert_eq!(
        (run.outcome.code, &run.outcome.stdout),
        (0, &control.stdout),
        "{}",
        run.outcome.stderr
    );
    assert!(field.refusals(&run.session).is_empty(), "{run:?}");
    control.stdout
}

#[test]
fn mode_bits_and_umask_are_the_programs_own() {
    let printed = same_python(
        "import os\n\
         for umask in (0o022, 0o077, 0o000, 0o777, 0o027):\n\
         \x20   os.umask(umask)\n\
         \x20   for mode in (0o666, 0o600, 0o4755, 0o777, 0):\n\
         \x20       name = 'f%o-%o' % (umask, mode)\n\
         \x20       os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode))\n\
         \x20       os.mkdir(name + 'd', mode)\n\
         \x20       os.mkfifo(name + 'p', mode)\n\
         \x20       print(name, *(oct(os.lstat(name + end).st_mode) for end in ('', 'd', 'p')))\n",
    );
    assert!(printed.contains("f22-666 0o100644"), "{printed}");
}

#[test]
fn the_umask_of_a_thread_of_its_own_counts() {
    same_python(
        "import ctypes, os, threading\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def work():\n\
         \x20   assert libc.unshare(0x200) == 0\n\
         \x20   os.umask(0o077)\n\
         \x20   os.close(os.open('inner', os.O_CREAT | os.O_WRONLY, 0o666))\n\
         os.umask(0o022)\n\
         thread = threading.Thread(target=work)\n\
         thread.start()\n\
         thread.join()\n\
         os.close(os.open('outer', os.O_CREAT | os.O_WRONLY, 0o666))\n\
         print(oct(os.stat('inner').st_mode), oct(os.stat('outer').st_mode))\n",
    );
}

#[test]
fn descriptors_have_their_numbers_flags_and_offsets() {
    // But for O_NOFOLLOW: the guard has followed symlinks itself, and opens what they lead to.
    let printed = same_python(
        "import fcntl, os\n\
         open('f', 'w').write('0123456789')\n\
         for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CLOEXEC,\n\
         \x20             os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, os.O_RDWR | os.O_SYNC, os.O_WRONLY | os.O_TRUNC):\n\
         \x20   fd = os.open('f', flags & ~os.O_CLOEXEC if not flags & os.O_CLOEXEC else flags)\n\
         \x20   print(fd, oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOFOLLOW), fcntl.fcntl(fd, fcntl.F_GETFD),\n\
         \x20         os.lseek(fd, 0, os.SEEK_CUR), os.get_inheritable(fd))\n\
         \x20   os.write(fd, b'ab')\n\
         \x20   print(os.lseek(fd, 0, os.SEEK_CUR), open('f').read())\n\
         \x20   os.close(fd)\n\
         a, b = os.open('f', os.O_RDWR), os.open('f', os.O_RDWR)\n\
         os.close(a)\n\
         print(os.open('f', os.O_RDWR) == a, b)\n",
    );
    assert!(printed.lines().count() == 15, "{printed}");
}

#[test]
fn a_limit_on_descriptors_holds() {
    same_python(
        "import os, resource, signal\n\
         resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n\
         opened = []\n\
         try:\n\
         \x20   while True:\n\
         \x20       opened.append(os.open('f', os.O_CREAT | os.O_WRONLY))\n\
         except OSError as error:\n\
         \x20   print(len(opened), error.errno)\n\
         resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))\n\
         signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n\
         try:\n\
         \x20   print(os.write(opened[0], b'12345678'))\n\
         \x20   os.write(opened[0], b'9')\n\
         except OSError as error:\n\
         \x20   print(error.errno)\n",
    );
}

#[test]
fn a_signal_interrupts_no_open() {
    let printed = same_python(
        "import os, signal\n\
         count = 0\n\
         def tick(*_):\n\
         \x20   global count\n\
         \x20   count += 1\n\
         signal.signal(signal.SIGALRM, tick)\n\
         signal.siginterrupt(signal.SIGALRM, False)\n\
         signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n\
         for number in range(3000):\n\
         \x20   os.close(os.open('f%d' % (number % 7), os.O_CREAT | os.O_WRONLY))\n\
         signal.setitimer(signal.ITIMER_REAL, 0)\n\
         print(count > 0)\n",
    );
    assert_eq!(printed, "True\n");
}

#[test]
fn a_fifo_waits_for_its_other_end_and_holds_nobody_else_up() {
    let printed = same_python(
        "import os, signal, subprocess, sys, time\n\
         os.mkfifo('fifo')\n\
         # A writer that waits for a reader, and is killed.\n\
         lone = subprocess.Popen([sys.executable, '-c', 'open(\"fifo\", \"w\")'])\n\
         time.sleep(0.3)\n\
         os.close(os.open('meanwhile', os.O_CREAT | os.O_WRONLY))\n\
         print(lone.poll())\n\
         lone.kill()\n\
         print(lone.wait())\n\
         # A writer that fails at once, and a pair.\n\
         try:\n\
         \x20   os.open('fifo', os.O_WRONLY | os.O_NONBLOCK)\n\
         except OSError as error:\n\
         \x20   print(error.errno)\n\
         writer = subprocess.Popen([sys.executable, '-c', 'open(\"fifo\", \"w\").write(\"through\")'])\n\
         print(open('fifo').read(), writer.wait())\n\
         both = os.open('fifo', os.O_RDWR)\n\
         os.write(both, b'self')\n\
         print(os.read(both, 4))\n\
         os.close(os.open('after', os.O_CREAT | os.O_WRONLY))\n",
    );
    assert_eq!(printed, "None\n-9\n6\nthrough 0\nb'self'\n");
}

#[test]
fn a_lease_is_broken_as_on_the_host() {
    let printed = same_python(
        "import fcntl, os, signal, subprocess, sys\n\
         open('leased', 'w').close()\n\
         told = []\n\
         def give_up(*_):\n\
         \x20   told.append(1)\n\
         \x20   fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)\n\
         signal.signal(signal.SIGIO, give_up)\n\
         fd = os.open('leased', os.O_RDONLY)\n\
         fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)\n\
         print(subprocess.call([sys.executable, '-c', 'open(\"leased\", \"w\").write(\"x\")']))\n\
         print(len(told), open('leased').read())\n\
         open('after', 'w').close()\n",
    );
    assert_eq!(printed, "0\n1 x\n");
}

#[test]
fn a_fresh_program_runs_as_soon_as_it_is_closed() {
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let run = field.run(
        &Rules::names(),
        &[&attempt, "write-and-run", "600", "fresh"],
    );
    let answer = crate::cases::last_answer(&run);
    assert_eq!(
        (
            answer["ran"].as_u64(),
            answer["busy"].as_u64(),
            answer["failed"].as_u64()
        ),
        (Some(600), Some(0), Some(0)),
        "{answer}"
    );
}

#[test]
fn permissions_are_still_the_kernels() {
    if is_root() {
        // Root inside has no capability, and outside all of them.
        let field = Field::new();
        field.prepare("echo x > ro && chmod 444 ro && chown 1:1 ro && mkdir shut && chmod 700 shut && chown 1:1 shut");
        let run = field.shell(&Rules::names(), "echo y > ro; echo y > shut/f; true");
        assert_eq!(
            run.outcome.stderr.matches("ermission denied").count(),
            2,
            "{run:?}"
        );
        assert!(field.outside("echo y > ro").succeeded(), "the control");
        return;
    }
    same_python(
        "import os\n\
         open('ro', 'w').close()\n\
         os.chmod('ro', 0o444)\n\
         os.mkdir('shut', 0o500)\n\
         for path in ('ro', 'shut/f', '/etc/new', '/proc/version'):\n\
         \x20   try:\n\
         \x20       os.open(path, os.O_CREAT | os.O_WRONLY)\n\
         \x20   except OSError as error:\n\
         \x20       print(path, error.errno if path[0] != '/' else 'refused')\n",
    );
}
