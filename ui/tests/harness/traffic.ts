/** What programs did, as the engine tells it: rows of the feed and questions to build scenarios from. */
import type {
  ActivityRow,
  Actor,
  DenyReason,
  FileDetail,
  GrantInfo,
  Problem,
  Prompt,
  RuleInfo,
} from "../../src/backend/generated";
import { HOME, NOON, SHOP } from "./samples";

export function actor(name: string, command = name, parents: string[] = ["bash"]): Actor {
  return { pid: 41, name, executable: `/usr/bin/${name}`, command, cwd: SHOP, parents };
}

const curl = actor("curl", "curl -fsSL https://files.example.com/install.sh", ["bash", "make", "claude"]);

interface RowPart extends Partial<ActivityRow> {
  /** Seconds before noon. */
  ago?: number;
}

/** What the guard says of a refused file or program. */
export function file(part: Partial<FileDetail> = {}): FileDetail {
  return {
    call: "openat",
    error: "EACCES",
    other: null,
    rule: { kind: "secret", path: `${HOME}/.ssh` },
    sentence: `${HOME}/.ssh is a secret, which no session can read or replace`,
    exact: true,
    approvable: false,
    ...part,
  };
}

/** A refused or allowed file access. */
export function fileRow(id: number, part: RowPart = {}): ActivityRow {
  const { ago = 0, ...rest } = part;
  const at = NOON - ago * 1_000;
  return {
    id,
    sessionId: "a",
    atMs: at,
    lastMs: at,
    outcome: "refused",
    action: "file-read-data",
    target: `${HOME}/.ssh/id_ed25519`,
    unicode: null,
    why: "secret, unreadable",
    wayOut: null,
    count: 1,
    process: actor("tar", "tar -cf /tmp/x.tar .ssh"),
    evidence: "observed",
    raw: "file-read-data /home/mira/.ssh/id_ed25519 call=openat error=EACCES pid=41 comm=tar",
    connection: null,
    file: file(),
    ...rest,
  };
}

/** A connection, allowed by the baseline unless it is refused. */
export function netRow(
  id: number,
  host: string,
  part: RowPart & { denied?: DenyReason; port?: number; bytes?: number } = {},
): ActivityRow {
  const { ago = 0, denied, port = 443, bytes = 0, ...rest } = part;
  const at = NOON - ago * 1_000;
  const outcome = part.outcome ?? (denied === undefined ? "allowed" : "refused");
  const target = `${host}:${port}`;
  return {
    id,
    sessionId: "a",
    atMs: at,
    lastMs: at,
    outcome,
    action: "network-outbound",
    target,
    unicode: null,
    why: denied === undefined ? "package registries" : "not on the allowlist",
    wayOut: denied === "notListed" ? `a rule for ${target} in this session` : null,
    count: 1,
    process: curl,
    evidence: "observed",
    raw: `network-outbound ${target} pid=41 curl`,
    connection: {
      connection: id,
      host,
      port,
      route: "connect",
      address: denied === undefined ? "203.0.113.20" : null,
      bytesUp: Math.round(bytes / 9),
      bytesDown: bytes,
      durationMs: outcome === "open" ? null : 420,
      allowed: denied === undefined ? { source: "baseline", pattern: host, rule: null } : null,
      denied: denied ?? null,
    },
    file: null,
    ...rest,
  };
}

const execFile = file({
  call: "execve",
  rule: { kind: "exec" },
  sentence:
    "programs in folders that this session can write, or an earlier one could, do not run, unless the folder is approved",
  approvable: true,
});

/** What a session with all rules about files and programs is refused, newest last by id. */
export const fileRows: ActivityRow[] = [
  fileRow(9_101, {
    ago: 96,
    action: "file-write-rename",
    target: `${SHOP}/.git`,
    why: `holds the protected ${SHOP}/.git/hooks`,
    process: actor("mv", "mv .git g"),
    raw: `file-write-rename ${SHOP}/.git other=${SHOP}/g call=renameat2 error=EACCES pid=52 comm=mv`,
    file: file({
      call: "renameat2",
      other: `${SHOP}/g`,
      rule: { kind: "ancestor", path: `${SHOP}/.git/hooks` },
      sentence: `${SHOP}/.git/hooks is protected, so no folder that holds it can be moved, removed or replaced`,
    }),
  }),
  fileRow(9_102, {
    ago: 81,
    action: "file-write-data",
    target: `${SHOP}/.git/config`,
    why: "git would run programs: core.fsmonitor",
    process: actor("git", "git config core.fsmonitor ./x"),
    file: file({
      rule: { kind: "git", what: "core.fsmonitor" },
      sentence: "git runs programs that its own files name, outside of the sandbox too: core.fsmonitor",
    }),
  }),
  netRow(9_103, "files.evil-cdn.net", { ago: 70, denied: "notListed", count: 3 }),
  fileRow(9_104, {
    ago: 52,
    action: "file-write-link",
    target: `${SHOP}/pre.key`,
    why: "filename rule *.key",
    process: actor("ln", "ln pre.key x.txt"),
    file: file({
      call: "linkat",
      other: `${SHOP}/x.txt`,
      rule: { kind: "name", glob: "*.key" },
      sentence:
        "no file whose name matches *.key can be made, changed or removed in what this session can write",
    }),
  }),
  fileRow(9_105, {
    ago: 33,
    action: "process-exec",
    target: "/usr/bin/bwrap",
    why: "never runs in a sandbox",
    process: actor("bwrap", "bwrap --bind / / sh"),
    file: {
      ...execFile,
      sentence: "this program is refused in every folder: by it a sandbox could be left",
      approvable: false,
    },
  }),
  fileRow(9_106, {
    ago: 21,
    action: "process-exec",
    target: `${SHOP}/node_modules/.bin/vite`,
    why: "exec restriction",
    wayOut: "approving the folder that the program lies in",
    count: 4,
    evidence: "inferred",
    process: actor("sh", "sh -c vite build", ["bash", "npm"]),
    raw: `process-exec ${SHOP}/node_modules/.bin/vite call=execve error=EACCES pid=57 comm=sh`,
    file: execFile,
  }),
  fileRow(9_107, {
    ago: 9,
    action: "file-write-create",
    target: `${SHOP}/a\\u{a}b.key`,
    why: "filename rule *.key",
    count: 1_204,
    process: actor("node", "node flood.js"),
    file: file({
      rule: { kind: "name", glob: "*.key" },
      sentence:
        "no file whose name matches *.key can be made, changed or removed in what this session can write",
      exact: false,
    }),
  }),
  fileRow(9_108, {
    ago: 2,
    action: "file-write-create",
    target: `${SHOP}/.env`,
    why: "filename rule .env",
    wayOut: "an exception for this path in the filename rules",
    process: actor("node", "node setup.js"),
    raw: `file-write-create ${SHOP}/.env call=openat error=EACCES pid=41 comm=node`,
    file: file({
      rule: { kind: "name", glob: ".env" },
      sentence:
        "no file whose name matches .env can be made, changed or removed in what this session can write",
    }),
  }),
];

/** The feed of the reference picture, newest last by id. */
export const usualRows: ActivityRow[] = [
  fileRow(9_001, {
    ago: 84,
    action: "file-write-data",
    target: `${HOME}/.bashrc`,
    why: "protected path",
    process: actor("sh"),
    file: file({
      rule: { kind: "protected", path: `${HOME}/.bashrc` },
      sentence: `neither ${HOME}/.bashrc nor anything below it can be made, changed or removed, whether it exists or not`,
    }),
  }),
  netRow(9_002, "api.anthropic.com", {
    ago: 69,
    bytes: 212_000,
    why: "model providers",
    process: actor("claude"),
  }),
  fileRow(9_003, {
    ago: 50,
    action: "process-exec",
    target: `${SHOP}/target/debug/build-script`,
    why: "exec restriction",
    wayOut: "approving the folder that the program lies in",
    process: actor("cargo", "cargo build", ["bash"]),
    raw: `process-exec ${SHOP}/target/debug/build-script call=execve error=EACCES pid=41 comm=cargo`,
    file: execFile,
  }),
  fileRow(9_004, { ago: 34 }),
  netRow(9_005, "registry.npmjs.org", { ago: 31, bytes: 1_400_000, process: actor("npm", "npm install") }),
  netRow(9_006, "169.254.169.254", {
    ago: 13,
    denied: "metadata",
    port: 80,
    count: 2,
    why: "cloud metadata, always refused",
    process: actor("python3", "python3 probe.py"),
  }),
  fileRow(9_007, {
    ago: 2,
    action: "file-write-create",
    target: `${SHOP}/.env`,
    why: "filename rule .env",
    wayOut: "an exception for this path in the filename rules",
    process: actor("node", "node setup.js"),
    raw: `file-write-create ${SHOP}/.env call=openat error=EACCES pid=41 comm=node`,
    file: file({
      rule: { kind: "name", glob: ".env" },
      sentence:
        "no file whose name matches .env can be made, changed or removed in what this session can write",
    }),
  }),
  netRow(9_008, "files.evil-cdn.net", { ago: 0, denied: "notListed", count: 38 }),
];

/** An hour of connections, allowed ones all along and a storm of refusals near its end. */
export function hourRows(): ActivityRow[] {
  const rows: ActivityRow[] = [];
  const hosts = ["files.evil-cdn.net", "collector.tracker.example", "pastebin.example", "10.0.0.7"];
  let id = 1;
  for (let minute = 59; minute >= 2; minute--) {
    const allowed = 3 + Math.round(6 * Math.sin(minute / 7) ** 2);
    rows.push(netRow(id++, "registry.npmjs.org", { ago: minute * 60, count: allowed, bytes: 80_000 }));
    const refused = minute > 30 ? 0 : Math.round(7 * Math.exp(-(((minute - 14) / 5) ** 2))) + (minute % 3);
    for (let at = 0; at < Math.min(refused, 4); at++) {
      const host = hosts[(at * at + minute) % (at + 1)] ?? "files.evil-cdn.net";
      rows.push(
        netRow(id++, host, { ago: minute * 60 - at, denied: "notListed", count: at === 0 ? refused : 1 }),
      );
    }
  }
  return rows;
}

export const openRows: ActivityRow[] = [
  netRow(8_900, "api.anthropic.com", {
    ago: 122,
    outcome: "open",
    bytes: 2_310_000,
    why: "model providers",
    process: actor("claude"),
  }),
  netRow(8_901, "github.com", {
    ago: 104,
    outcome: "open",
    bytes: 48_200,
    port: 22,
    why: "GitHub",
    process: actor("git"),
  }),
];

/** So many rows that none could draw them all. */
export function manyRows(count: number): ActivityRow[] {
  return Array.from({ length: count }, (_, index) =>
    index % 3 === 0
      ? netRow(index + 1, `host-${index % 40}.example.com`, {
          ago: (count - index) / 10,
          denied: "notListed",
        })
      : index % 3 === 1
        ? netRow(index + 1, "registry.npmjs.org", { ago: (count - index) / 10, bytes: index })
        : fileRow(index + 1, { ago: (count - index) / 10, target: `${SHOP}/secret-${index}.pem` }),
  );
}

/** A question, as the engine tells it. */
export function prompt(part: Partial<Prompt> = {}): Prompt {
  const { host = "files.example.com", port = 443, parent = "*.example.com" } = part;
  return {
    id: "question-1",
    sessionId: "a",
    sessionTitle: "sh",
    workspace: SHOP,
    backend: "native",
    host,
    unicode: null,
    port,
    parent,
    process: curl,
    address: null,
    firstMs: NOON - 8_000,
    attempts: 2,
    history: "noneAllowed",
    state: "waiting",
    deadlineMs: NOON + 37_000,
    countdownMs: 60_000,
    words: [
      { scope: "hostPort", pattern: `${host}:${port}` },
      { scope: "host", pattern: host },
      ...(parent === null ? [] : [{ scope: "parent" as const, pattern: parent }]),
    ],
    ...part,
  };
}

/** One of each kind; the second port is taken here. */
export const grants: GrantInfo[] = [
  {
    id: 1,
    kind: "portIn",
    hostPort: 8080,
    guestPort: 3000,
    path: null,
    sessionId: "a",
    workspace: SHOP,
    createdAtMs: NOON - 300_000,
    words: "port 3000 inside, opened as 127.0.0.1:8080 of this computer, until the session a ends",
  },
  {
    id: 2,
    kind: "portIn",
    hostPort: 5173,
    guestPort: 5173,
    path: null,
    sessionId: null,
    workspace: SHOP,
    createdAtMs: NOON - 86_400_000,
    words: `port 5173 inside, opened as 127.0.0.1:5173 of this computer, for every session that starts in ${SHOP}`,
  },
  {
    id: 3,
    kind: "portOut",
    hostPort: 5432,
    guestPort: 5432,
    path: null,
    sessionId: null,
    workspace: SHOP,
    createdAtMs: NOON - 86_400_000,
    words: `127.0.0.1:5432 of this computer, opened as port 5432 inside, for every session that starts in ${SHOP}`,
  },
  {
    id: 4,
    kind: "socket",
    hostPort: null,
    guestPort: null,
    path: "ssh-agent",
    sessionId: "a",
    workspace: SHOP,
    createdAtMs: NOON - 200_000,
    words: "your ssh agent, until the session a ends",
  },
];

function execGrant(id: number, path: string, sessionId: string | null): GrantInfo {
  const reach = sessionId === null ? `for every session that starts in ${SHOP}` : "until the session a ends";
  return {
    id,
    kind: "exec",
    hostPort: null,
    guestPort: null,
    path,
    sessionId,
    workspace: SHOP,
    createdAtMs: NOON - 86_400_000,
    words: `programs in ${path} may run, ${reach}`,
  };
}

/** One of each standing but revoked: in force, from the next start on, not to be used. */
export const execGrants: GrantInfo[] = [
  execGrant(11, `${SHOP}/node_modules/.bin`, null),
  execGrant(12, `${SHOP}/target`, "a"),
  execGrant(13, `${SHOP}/out`, null),
];

export const folderMissing: Problem = {
  code: "EXEC_FOLDER_MISSING",
  message: `there is no folder ${SHOP}/out`,
  causes: [],
  fix: { text: "Approve it once it exists, or choose a folder that does.", command: null },
};

export const portTaken: Problem = {
  code: "HOST_PORT_TAKEN",
  message: "port 5173 of this computer is taken",
  causes: [],
  fix: {
    text: "Name another port of this computer behind a colon, as in 3000:8080, or end the program that has it.",
    command: null,
  },
};

export const rules: RuleInfo[] = [
  {
    id: 1,
    pattern: "*.debian.org",
    allow: true,
    sessionId: null,
    workspace: SHOP,
    origin: "operator",
    createdAtMs: NOON - 86_400_000,
    words: `*.debian.org may be reached by every session in ${SHOP}`,
  },
  {
    id: 2,
    pattern: "files.example.org:443",
    allow: true,
    sessionId: "a",
    workspace: SHOP,
    origin: "prompt",
    createdAtMs: NOON - 300_000,
    words: "files.example.org:443 may be reached by sh, until it ends",
  },
  {
    id: 3,
    pattern: "collector.tracker.example",
    allow: false,
    sessionId: null,
    workspace: SHOP,
    origin: "prompt",
    createdAtMs: NOON - 120_000,
    words: `collector.tracker.example is refused to every session in ${SHOP}`,
  },
];
