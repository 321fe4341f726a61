/** Values as the engine sends them, to build scenarios from. */
import type {
  BackendReport,
  EnforcementRow,
  Gap,
  HostReport,
  HostRow,
  LaunchRequest,
  Preset,
  Problem,
  RunningProcess,
  SandboxBackend,
  SessionInfo,
  SessionPhase,
  Settings,
  Snapshot,
} from "../../src/backend/generated";

export const HOME = "/home/mira";
export const SHOP = `${HOME}/code/shop`;
export const NOTES = `${HOME}/notes`;
/** 2026-12-01 12:04:11 UTC. */
export const NOON = Date.UTC(2026, 11, 1, 12, 4, 11);

export const noKvm: Problem = {
  code: "MICROVM_UNAVAILABLE",
  message: "KVM is present but emulates guest kernel code",
  causes: ["the canary guest did not run on the processor: this host is itself a virtual machine"],
  fix: {
    text: "use a host with hardware virtualisation, and install QEMU there",
    command: "sudo apt-get install qemu-system-x86",
  },
};

export const noBwrap: Problem = {
  code: "NATIVE_UNAVAILABLE",
  message: "bubblewrap and socat are not installed",
  causes: [],
  fix: { text: "install both packages", command: "sudo apt-get install bubblewrap socat" },
};

export const noUserns: Problem = {
  code: "USERNS_RESTRICTED",
  message: "the trial sandbox could not be made",
  causes: [
    "bwrap: setting up uid map: Permission denied",
    "AppArmor restricts unprivileged user namespaces on this system",
  ],
  fix: {
    text: "let bubblewrap make user namespaces with a profile of its own",
    command: "sudo apt-get install apparmor-profiles && sudo systemctl reload apparmor",
  },
};

export const gaps: Gap[] = [
  {
    code: "missing-protected-path",
    text: "4 protected paths do not exist yet, and creating them is not refused",
  },
  { code: "filename-rules-off", text: "filename rules are off: new .env, *.key and *.pem files can be made" },
];

/** As many as a host can have. */
export const manyGaps: Gap[] = [
  ...gaps,
  {
    code: "missing-secret-path",
    text: "9 secret paths do not exist yet, among them ~/.azure, ~/.kube and ~/.netrc",
  },
  {
    code: "secret-file-replaced",
    text: "a secret file that a host program replaces loses its mask until the next launch",
  },
  {
    code: "unsearched-directories",
    text: "12 folders were not searched for repositories, among them ~/mirror",
  },
  { code: "sockets-in-visible-folders", text: "2 Unix sockets in visible folders can be connected to" },
];

const backends: BackendReport[] = [
  {
    backend: "microvm",
    available: false,
    requiresInstall: false,
    note: "a virtual machine with its own kernel",
    problem: noKvm,
  },
  {
    backend: "native",
    available: true,
    requiresInstall: false,
    note: "bubblewrap, namespace isolation, no kernel boundary",
    problem: null,
  },
  {
    backend: "none",
    available: true,
    requiresInstall: false,
    note: "no sandbox: the process runs directly on this host",
    problem: null,
  },
];

function row(id: string, label: string, detail: string, enables = ""): HostRow {
  return { id, label, status: "ok", detail, enables, cause: null, fix: null };
}

/** A Debian host where native works and microVMs do not. */
export const usualHost: HostReport = {
  verdict: {
    state: "on",
    line: "agent sandbox ON — bubblewrap 0.8.0, namespace isolation, no kernel boundary",
  },
  backends,
  rows: [
    row(
      "bubblewrap",
      "bubblewrap",
      "0.8.0 at /usr/bin/bwrap",
      "The native backend: builds the sandbox’s namespaces and mounts.",
    ),
    row("trial", "Trial sandbox", "passed 9 of 9 checks in 14 ms"),
    row(
      "socat",
      "socat",
      "1.7.4.4 at /usr/bin/socat",
      "The documented bridge from a sandbox’s network to the host’s proxy.",
    ),
    row("user-namespaces", "User namespaces", "allowed for you"),
    row("landlock", "Landlock", "ABI 7", "Scopes for signals and abstract sockets."),
    row("seccomp-notify", "System call notices", "kernel 6.18"),
    {
      id: "kvm",
      label: "KVM",
      status: "partial",
      detail: "/dev/kvm opens",
      enables: "Runs virtual machines at full speed.",
      cause: "guest kernel code is emulated, so no stock kernel can boot",
      fix: { text: "use a host with hardware virtualisation", command: null },
    },
    {
      id: "qemu",
      label: "QEMU",
      status: "missing",
      detail: "missing",
      enables: "Runs microVMs.",
      cause: "qemu-system-x86_64 is not on PATH",
      fix: { text: "install QEMU", command: "sudo apt-get install qemu-system-x86" },
    },
  ],
  platform: {
    os: "linux",
    name: "Debian GNU/Linux 12",
    kernel: "6.18.5",
    arch: "x86_64",
    wsl: null,
    container: null,
  },
  facts: {
    bwrapPath: "/usr/bin/bwrap",
    bwrapVersion: [0, 8, 0],
    socatPath: "/usr/bin/socat",
    landlockAbi: 7,
    seccompNotify: true,
    seccompWaitKillable: true,
    ptraceScope: 1,
    filesSupervised: true,
    uid: 1000,
  },
  probedAtMs: NOON,
  durationMs: 41,
};

/** Everything is there. */
export const fullHost: HostReport = {
  ...usualHost,
  backends: backends.map((report) => ({ ...report, available: true, problem: null })),
  rows: [
    ...usualHost.rows.filter((each) => each.status === "ok"),
    row("kvm", "KVM", "/dev/kvm boots a guest", "Runs virtual machines at full speed."),
    row("qemu", "QEMU", "10.1.0 at /usr/bin/qemu-system-x86_64", "Runs microVMs."),
  ],
};

function withoutNative(problem: Problem, requiresInstall: boolean): BackendReport[] {
  return backends.map((report) =>
    report.backend === "native" ? { ...report, available: false, requiresInstall, problem } : report,
  );
}

/** Neither bubblewrap nor socat is installed. */
export const bareHost: HostReport = {
  ...usualHost,
  verdict: {
    state: "unavailable",
    line: "no OS-native agent sandbox on this host — bwrap and socat are not on PATH: sudo apt-get install bubblewrap socat",
  },
  backends: withoutNative(noBwrap, true),
  rows: usualHost.rows.map((each) =>
    each.id === "bubblewrap" || each.id === "socat"
      ? {
          ...each,
          status: "missing",
          detail: "",
          cause: `${each.label} is not on PATH`,
          fix: { text: `install ${each.label}`, command: `sudo apt-get install ${each.id}` },
        }
      : each.id === "trial"
        ? { ...each, status: "missing", detail: "", cause: "there is no bubblewrap to try" }
        : each,
  ),
};

/** bubblewrap is there, and the system forbids it to work. */
export const restrictedHost: HostReport = {
  ...usualHost,
  verdict: {
    state: "unavailable",
    line: "no OS-native agent sandbox on this host — AppArmor restricts unprivileged user namespaces",
  },
  backends: withoutNative(noUserns, false),
};

/** Started with `--sandbox off`. */
export const disabledHost: HostReport = {
  ...usualHost,
  verdict: { state: "disabled", line: "agent sandbox DISABLED by --sandbox off" },
};

export const presets: Preset[] = [
  { id: "claude", label: "Claude Code", path: "/usr/local/bin/claude" },
  { id: "codex", label: "Codex", path: null },
  { id: "gemini", label: "Gemini CLI", path: null },
];

export const settings: Settings = {
  theme: "dark",
  fontSize: 13,
  fontFamily: "",
  scrollbackLines: 10_000,
  warnMultilinePaste: true,
  confirmClose: true,
  promptSeconds: 60,
  notifyPrompts: true,
  webgl: false,
  screenReader: false,
};

export function request(part: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    program: { kind: "shell" },
    cwd: SHOP,
    backend: "native",
    network: part.backend === "none" ? null : "open",
    extraDomains: [],
    portForwards: [],
    socketGrants: [],
    mode: "chat",
    protectedPaths: [],
    execRestriction: "off",
    cols: 80,
    rows: 24,
    ...part,
  };
}

interface SessionPart {
  id: string;
  title?: string;
  backend?: SandboxBackend;
  phase?: SessionPhase;
  cwd?: string;
  exitCode?: number | null;
  error?: Problem;
  gaps?: Gap[];
  network?: LaunchRequest["network"];
  exec?: LaunchRequest["execRestriction"];
  unread?: number;
  /** What is enforced of rules about files and programs. */
  files?: EnforcementRow[];
}

/** Rules about files and programs as they are enforced, the one with a gap. */
export const fileAspects: EnforcementRow[] = [
  {
    aspect: "filenameRules",
    level: "on",
    detail: "names that match .env, *.key, *.pem cannot be made; seen at each system call",
    gaps: [],
  },
  {
    aspect: "execRestriction",
    level: "partial",
    detail: "programs run from the system’s folders and 1 approved folder, by Landlock",
    gaps: [
      {
        code: "exec-interpreters",
        text: "interpreters still read and run scripts: sh ./x.sh is not refused",
      },
    ],
  },
];

/** A session as a launch leaves it. */
export function session(part: SessionPart): SessionInfo {
  const { id, title = "bash", backend = "native", phase = "running", cwd = SHOP } = part;
  const over = phase === "ended" || phase === "error";
  const runs = backend !== null && phase !== "error" && phase !== "starting";
  return {
    id,
    title,
    workspace: cwd,
    cwd,
    handle: {
      sessionId: id,
      backend: runs ? backend : null,
      state: (
        {
          starting: "created",
          ready: "warm",
          running: "active",
          suspended: "suspended",
          ended: "destroyed",
          error: "error",
        } as const
      )[phase],
      error: part.error ?? null,
      enforcement:
        runs && backend !== "none"
          ? {
              aspects: [
                {
                  aspect: "mounts",
                  level: "on",
                  detail: "your home and the folder writable, the system read-only",
                  gaps: [],
                },
                {
                  aspect: "secretReads",
                  level: "on",
                  detail: "18 secret paths unreadable",
                  gaps: [],
                },
                {
                  aspect: "protectedWrites",
                  level: part.gaps ? "partial" : "on",
                  detail: "23 protected paths unwritable",
                  gaps: part.gaps ?? [],
                },
                { aspect: "processes", level: "on", detail: "own process space, no capability", gaps: [] },
                part.network === undefined || part.network === "open"
                  ? { aspect: "network", level: "off", detail: "open, not observed", gaps: [] }
                  : { aspect: "network", level: "on", detail: "listed domains only", gaps: [] },
                ...(part.files ?? []),
              ],
            }
          : null,
      details:
        runs && backend === "native"
          ? {
              argv: [
                "/usr/bin/bwrap",
                "--args",
                "10",
                "--",
                "/proc/self/fd/12",
                "native",
                "13",
                "# --args 10:",
                "--unshare-user",
                "--unshare-pid",
                "--ro-bind",
                "/usr",
                "/usr",
                "--bind",
                cwd,
                cwd,
              ],
              freezer: "guard",
              launchMs: 14,
              pid: 4711,
              withheldVariables: ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK"],
              workdir: cwd,
            }
          : {},
    },
    network: part.network ?? "open",
    phase,
    exitCode: part.exitCode ?? null,
    request: request({
      backend,
      cwd,
      network: backend === "none" ? null : (part.network ?? "open"),
      execRestriction: part.exec ?? "off",
    }),
    summary: [
      `Can write to **${cwd}** and **your home**, but not to **23 protected paths**.`,
      "Cannot read **.ssh, .aws, .gnupg, gh** and 14 other secrets.",
      part.network === undefined || part.network === "open"
        ? "Uses **this host’s network**, not observed."
        : "May reach **12 listed domains**.",
    ],
    startedAtMs: NOON - 600_000,
    endedAtMs: over ? NOON - 5_000 : null,
    unreadRefusals: part.unread ?? 0,
    counts: { allowed: 0, refused: part.unread ?? 0, waiting: 0 },
  };
}

export const running: RunningProcess[] = [
  { pid: 2, command: "bash", foreground: false },
  { pid: 41, command: "npm run build", foreground: true },
  { pid: 57, command: "node /home/mira/code/shop/node_modules/.bin/vite build\\e[2J", foreground: true },
];

export function snapshot(part: Partial<Snapshot> = {}): Snapshot {
  return {
    host: usualHost,
    sessions: [],
    settings,
    layout: null,
    presets,
    recentFolders: [SHOP, NOTES, `${HOME}/code/kettle`],
    lastChoices: [],
    home: HOME,
    version: "0.1.0",
    prompts: [],
    folded: [],
    rules: [],
    grants: [],
    notices: [],
    ...part,
  };
}
