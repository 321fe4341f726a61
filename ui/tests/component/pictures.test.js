// Every screen and state, light and dark: it fits, it is accessible, and it is kept as a picture.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  NOON,
  assertAccessible,
  assertFits,
  changeTheme,
  dialog,
  openPalette,
  openSheet,
  picture,
  useBrowser,
  withWindow,
} from "./support.js";

useBrowser();

const sheet = async (page) => {
  await openSheet(page);
  await dialog(page, "New session").waitFor();
  await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
};
const why = (name) => async (page) => {
  await sheet(page);
  await page.getByRole("button", { name: `Why, and what to do: ${name} is not available` }).click();
};
const choose = (name) => async (page) => {
  await sheet(page);
  await page.getByRole("radio", { name }).check();
  await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
};
const host = async (page) => {
  await page.keyboard.press("Control+Shift+H");
  await dialog(page, "This host").waitFor();
};
const settings = async (page) => {
  await page.keyboard.press("Control+Shift+S");
  await dialog(page, "Settings").waitFor();
};
/** A view of the inspector, on the clock of the samples. */
/** What each tab of the inspector is there with. */
const PARTS = {
  Network: "timeline",
  Activity: "activity-count",
  Policy: "exec-policy",
  About: "output-check",
};
const view =
  (name, then = async () => {}) =>
  async (page) => {
    await page.getByRole("tab", { name }).click();
    await page.getByTestId(PARTS[name]).first().waitFor();
    await then(page);
    await page.evaluate(() => new Promise((done) => setTimeout(done, 400)));
  };
const atNoon = { now: NOON };
const down = (page) =>
  page.getByRole("tabpanel").evaluate((panel) => {
    for (const details of panel.querySelectorAll("details")) details.open = true;
    panel.scrollTop = panel.scrollHeight;
  });
const terminal = async (page) => {
  await page.locator(".xterm-rows").first().waitFor();
};
const ask = (what) => async (page) => {
  await page.evaluate((wanted) => {
    const { ask } = window;
    void (wanted.kind === "close"
      ? ask.confirmClose(wanted.processes, { what: "bash" })
      : wanted.kind === "restart"
        ? ask.confirmRestart(wanted.processes, { what: "bash" })
        : wanted.kind === "paste"
          ? ask.confirmPaste(wanted.text)
          : wanted.kind === "quit"
            ? ask.confirmQuit(wanted.sessions)
            : ask.confirmLink(wanted.url));
  }, what);
  await page.getByRole("dialog").waitFor();
};
const processes = [
  { pid: 2, command: "bash", foreground: false },
  { pid: 41, command: "npm run build", foreground: true },
  { pid: 57, command: `node ${"/very/long/path".repeat(12)}/vite build`, foreground: true },
];

/** The form that approves the folder of a refused program. */
function approve(then) {
  return async (page) => {
    await page.getByRole("option").filter({ hasText: "vite" }).click();
    await page.getByRole("button", { name: /^Approve running/ }).click();
    const form = page.getByTestId("approve-folder");
    await form.waitFor();
    await then?.(page);
    await form.or(page.getByTestId("approved")).scrollIntoViewIfNeeded();
  };
}

/** What the Policy view says of programs. */
function programs(then) {
  return async (page) => {
    await page.getByTestId("exec-policy").waitFor();
    await then?.(page);
    await page.getByTestId("exec-policy").scrollIntoViewIfNeeded();
  };
}

/** @type {[name: string, scenario: string, prepare?: (page: any) => Promise<void>, options?: object][]} */
const states = [
  ["window-empty", "empty"],
  ["window-one", "one", terminal],
  ["window-splits", "splits", terminal],
  ["window-splits-down", "splits-down", terminal],
  ["window-notices", "notices", terminal],
  ["window-narrow", "splits", terminal, { width: 900, height: 600 }],
  ["window-disabled", "sheet-disabled"],
  ["window-bare", "sheet-bare"],
  ...["native", "gaps", "microvm", "none"].map((name) => [`badge-${name}`, `badge-${name}`, terminal]),
  ...["starting", "ready", "running", "suspended", "ended", "failed", "error"].map((name) => [
    `phase-${name}`,
    `phase-${name}`,
  ]),
  [
    "find-bar",
    "one",
    async (page) => {
      await terminal(page);
      await page.keyboard.press("Control+Shift+F");
      await page.keyboard.type("shop");
    },
  ],
  [
    "pane-menu",
    "one",
    async (page) => {
      await terminal(page);
      await page.locator("[aria-haspopup=menu]").last().click();
      await page.getByRole("menu").waitFor();
    },
  ],
  ["sheet-usual", "sheet-usual", sheet],
  ["sheet-all", "sheet-all", sheet],
  ["sheet-bare", "sheet-bare", sheet],
  ["sheet-restricted", "sheet-restricted", why("native")],
  ["sheet-disabled", "sheet-disabled", sheet],
  ["sheet-why", "sheet-usual", why("microVM")],
  ["sheet-none", "sheet-usual", choose("none Your own shell")],
  ["sheet-ask-first", "sheet-usual", choose("Ask first")],
  [
    "sheet-grants",
    "sheet-usual",
    async (page) => {
      await choose("Allowlist")(page);
      await page.getByRole("button", { name: /^More/ }).click();
      await page.getByLabel("Opened here from inside").fill("3000 5173:8080");
      await page.getByLabel(/Your ssh agent/).check();
      await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
    },
  ],
  ["sheet-gaps", "sheet-gaps", sheet],
  ["sheet-many-gaps", "sheet-many-gaps", sheet],
  ["sheet-command", "sheet-usual", choose("Command…")],
  ["sheet-last", "sheet-last", sheet],
  ["sheet-last-lost", "sheet-last-lost", sheet],
  ["sheet-refused", "sheet-refused", sheet],
  [
    "sheet-launch-refused",
    "sheet-launch-refused",
    async (page) => {
      await sheet(page);
      await page.keyboard.press("Enter");
      await page.getByText("No terminal could be opened.").waitFor();
    },
  ],
  [
    "sheet-no-folder",
    "sheet-usual",
    async (page) => {
      await sheet(page);
      await page.getByLabel("Folder").fill("~/gone");
      await page.getByText("No such folder").waitFor();
    },
  ],
  [
    "sheet-recent",
    "sheet-usual",
    async (page) => {
      await sheet(page);
      await page.getByRole("button", { name: "Recent" }).click();
      await page.getByRole("menu").waitFor();
    },
  ],
  ["sheet-narrow", "sheet-last", sheet, { width: 900, height: 600 }],
  ["host-full", "host-full", host],
  ["host-usual", "host-usual", host],
  ["host-bare", "host-bare", host],
  ["host-restricted", "host-restricted", host],
  ["host-disabled", "host-disabled", host],
  ["host-wsl", "host-wsl", host],
  ["host-narrow", "host-bare", host, { width: 900, height: 600 }],
  [
    "host-probing",
    "host-usual",
    async (page) => {
      await host(page);
      await page.evaluate(() => window.fake.hold());
      await page.getByRole("button", { name: "Probe again" }).click();
      await page.getByRole("button", { name: "Probing…" }).waitFor();
    },
  ],
  ["settings", "settings", settings],
  [
    "settings-out-of-range",
    "settings",
    async (page) => {
      await settings(page);
      await page.getByLabel("Font size").fill("4");
      await page.keyboard.press("Enter");
    },
  ],
  [
    "settings-refused",
    "settings-refused",
    async (page) => {
      await settings(page);
      await page.getByRole("checkbox").first().click();
      await page.getByRole("alert").waitFor();
    },
  ],
  ["settings-narrow", "settings", settings, { width: 900, height: 600 }],
  [
    "palette",
    "one",
    async (page) => {
      await terminal(page);
      await openPalette(page);
      await dialog(page, "Commands").waitFor();
    },
  ],
  [
    "palette-filtered",
    "empty",
    async (page) => {
      await openPalette(page);
      await page.keyboard.type("spl");
    },
  ],
  [
    "palette-nothing",
    "empty",
    async (page) => {
      await openPalette(page);
      await page.keyboard.type("zzz");
    },
  ],
  [
    "network-grants",
    "network-grants",
    view("Network", async (page) => {
      await page.getByTestId("grant").nth(3).waitFor();
      await page.getByTestId("grants").scrollIntoViewIfNeeded();
    }),
    atNoon,
  ],
  [
    "network-grants-refused",
    "network-grants",
    view("Network", async (page) => {
      await page.getByLabel("What is granted").selectOption("socket");
      await page.getByLabel("Path of the socket").fill("/run/docker.sock");
      await page.getByRole("button", { name: "Grant", exact: true }).click();
      await page.getByText(/never let into a sandbox/).waitFor();
      await page.getByText(/never let into a sandbox/).scrollIntoViewIfNeeded();
    }),
    atNoon,
  ],
  [
    "activity-files",
    "files",
    view("Activity", (page) => page.getByRole("button", { name: "Files", exact: true }).click()),
    atNoon,
  ],
  ["activity-kinds", "files", view("Activity"), atNoon],
  ["activity-kinds-narrow", "files", view("Activity"), { ...atNoon, width: 900, height: 600 }],
  [
    "activity-detail-rename",
    "files",
    view("Activity", (page) => page.getByRole("option").filter({ hasText: "other end g" }).click()),
    atNoon,
  ],
  [
    "activity-detail-escaped",
    "files",
    view("Activity", (page) => page.getByRole("option").filter({ hasText: "1,204" }).click()),
    atNoon,
  ],
  [
    "activity-detail-program",
    "files-none",
    view("Activity", (page) => page.getByRole("option").filter({ hasText: "vite" }).click()),
    atNoon,
  ],
  ["approve-folder", "files-none", view("Activity", approve()), atNoon],
  [
    "approve-folder-narrow",
    "files-none",
    view("Activity", approve()),
    { ...atNoon, width: 900, height: 600 },
  ],
  ["approve-folder-ended", "files-ended", view("Activity", approve()), atNoon],
  [
    "approve-folder-done",
    "files-none",
    view(
      "Activity",
      approve(async (page) => {
        await page.getByRole("button", { name: "Approve", exact: true }).click();
        await page.getByTestId("approved").waitFor();
      }),
    ),
    atNoon,
  ],
  ["about", "files", view("About", down), atNoon],
  ["policy-programs", "files", view("Policy", programs()), atNoon],
  ["policy-programs-none", "files-none", view("Policy", programs()), atNoon],
  [
    "policy-programs-revoked",
    "files",
    view(
      "Policy",
      programs((page) => page.getByRole("button", { name: /^Revoke: .*node_modules/ }).click()),
    ),
    atNoon,
  ],
  [
    "policy-programs-refused",
    "files-none",
    view(
      "Policy",
      programs(async (page) => {
        await page.getByLabel("Folder whose programs may run").fill("~");
        await page.keyboard.press("Enter");
        await page.getByText(/too wide to be approved/).waitFor();
      }),
    ),
    atNoon,
  ],
  ["policy-programs-free", "one", view("Policy", programs()), atNoon],
  [
    "sheet-programs",
    "sheet-usual",
    async (page) => {
      await sheet(page);
      await page.getByRole("button", { name: /^More/ }).click();
      await page.getByLabel("Refused", { exact: true }).check({ force: true });
      await page.getByText(/does not run, but in folders/).scrollIntoViewIfNeeded();
      await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
    },
  ],
  ["activity", "network", view("Activity"), atNoon],
  ["activity-narrow", "network", view("Activity"), { ...atNoon, width: 900, height: 600 }],
  ["activity-many", "network-many", view("Activity"), atNoon],
  ["activity-empty", "network-empty", view("Activity"), atNoon],
  ["activity-blind", "network-blind", view("Activity"), atNoon],
  [
    "activity-no-match",
    "network",
    view("Activity", async (page) => {
      await page.getByRole("searchbox").fill("zzz");
      await page.getByText("Nothing matches the filter.").waitFor();
    }),
    atNoon,
  ],
  [
    "activity-detail",
    "network",
    view("Activity", (page) => page.getByRole("option").first().click()),
    atNoon,
  ],
  [
    "activity-detail-file",
    "network",
    view("Activity", (page) => page.getByRole("option").filter({ hasText: ".env" }).first().click()),
    atNoon,
  ],
  [
    "activity-groups",
    "network",
    view("Activity", (page) => page.getByRole("button", { name: "By target" }).click()),
    atNoon,
  ],
  [
    "activity-all-sessions",
    "network",
    view("Activity", (page) => page.getByRole("button", { name: "session:sh" }).click()),
    atNoon,
  ],
  [
    "activity-paused",
    "network",
    view("Activity", async (page) => {
      await page.getByRole("button", { name: "Pause" }).click();
      await page.evaluate(() => {
        const { network } = window.fake;
        const [row] = network.activity({ ...window.wholeHistory, limit: 1 }).rows;
        network.record(Array.from({ length: 12 }, () => network.row(row)));
      });
      await page.getByRole("button", { name: "12 new" }).waitFor();
    }),
    atNoon,
  ],
  [
    "activity-menu",
    "network",
    view("Activity", (page) => page.getByRole("option").nth(2).click({ button: "right" })),
    atNoon,
  ],
  [
    "activity-hostile",
    "prompt-hostile",
    view("Activity", (page) => page.getByRole("option").nth(2).click()),
    atNoon,
  ],
  ["network", "network-rules", view("Network"), atNoon],
  ["network-lists", "network-rules", view("Network", down), atNoon],
  ["network-narrow", "network-rules", view("Network"), { ...atNoon, width: 900, height: 600 }],
  ["network-off", "network-off", view("Network"), atNoon],
  [
    "network-zoomed",
    "network",
    view("Network", async (page) => {
      await page.getByTestId("timeline").focus();
      await page.keyboard.press("End");
      for (let step = 0; step < 12; step++) await page.keyboard.press("ArrowLeft");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Back" }).waitFor();
      await page.keyboard.press("End");
      for (let step = 0; step < 20; step++) await page.keyboard.press("ArrowLeft");
    }),
    atNoon,
  ],
  [
    "network-tested",
    "network-rules",
    view("Network", async (page) => {
      await page.getByLabel("Host pattern").fill("*.com");
      await page.keyboard.press("Enter");
      await page.getByRole("textbox", { name: "Test a destination" }).fill("files.evil-cdn.net");
      await page.keyboard.press("Enter");
      await page.getByTestId("verdict").waitFor();
      await down(page);
    }),
    atNoon,
  ],
  [
    "network-open",
    "one",
    async (page) => {
      await page.getByRole("tab", { name: "Network" }).click();
      await page.getByTestId("network-plain").waitFor();
    },
  ],
  ["prompt", "prompt-one", view("Activity"), atNoon],
  ["prompt-narrow", "prompt-one", view("Activity"), { ...atNoon, width: 900, height: 600 }],
  ["prompt-several", "prompt-several", view("Activity"), atNoon],
  ["prompt-hostile", "prompt-hostile", view("Activity"), atNoon],
  [
    "prompt-missed",
    "prompt-missed",
    view("Activity", (page) => page.getByTestId("prompt-row").click()),
    atNoon,
  ],
  ["prompt-held", "prompt-one", view("Activity", (page) => page.keyboard.press("Control+Shift+J")), atNoon],
  [
    "prompt-answered",
    "prompt-several",
    view("Activity", async (page) => {
      await page.evaluate(() => new Promise((done) => setTimeout(done, 600)));
      await page.locator("[data-answer=allowSession]").click();
      await page.getByTestId("done-strip").waitFor();
    }),
    atNoon,
  ],
  [
    "rules",
    "network-rules",
    async (page) => {
      await page.keyboard.press("Control+Shift+L");
      await dialog(page, "Rules").getByTestId("rule").first().waitFor();
      await page.getByRole("button", { name: /^Remove: collector/ }).click();
      await page.getByRole("button", { name: /^Undo/ }).first().waitFor();
    },
    atNoon,
  ],
  [
    "rules-none",
    "network",
    async (page) => {
      await page.keyboard.press("Control+Shift+L");
      await dialog(page, "Rules").waitFor();
    },
    atNoon,
  ],
  ["sheet-allowlist", "sheet-usual", choose("Allowlist")],
  ["question-close", "one", ask({ kind: "close", processes })],
  ["question-restart", "one", ask({ kind: "restart", processes })],
  ["question-paste", "one", ask({ kind: "paste", text: "cd /tmp\ncurl https://example.org/x.sh | sh\n" })],
  [
    "question-paste-hidden",
    "one",
    ask({ kind: "paste", text: `ls\u001b[201~\nrm -rf ~/x\u202e\n${"echo more\n".repeat(80)}` }),
  ],
  ["question-link", "one", ask({ kind: "link", url: "https://docs.example.org/guide/start?from=kotak#one" })],
  [
    "question-link-warnings",
    "one",
    ask({ kind: "link", url: `http://docs.example.org:x@аpple.com/${"path/".repeat(60)}` }),
  ],
  [
    "question-quit",
    "one",
    ask({
      kind: "quit",
      sessions: [
        { title: "bash", where: "~/code/shop" },
        { title: "claude", where: `~/${"deep/".repeat(30)}` },
      ],
    }),
  ],
  ["question-link-refused", "one", ask({ kind: "link", url: "file:///etc/passwd" })],
];

for (const [name, scenario, prepare, options = {}] of states) {
  test(`${name} fits and is accessible, dark and light`, () =>
    withWindow(scenario, { theme: "dark", ...options }, async (page) => {
      await prepare?.(page);
      await picture(page, `${name}-dark`);
      await assertFits(page);
      await assertAccessible(page);
      await changeTheme(page, "light");
      await picture(page, `${name}-light`);
      await assertFits(page);
      // The colours are all that a theme changes.
      await assertAccessible(page, ["color-contrast"]);
    }));
}

for (const [name, scenario, prepare, options = {}] of [
  ["contrast-window", "splits", terminal],
  ["contrast-sheet", "sheet-usual", sheet],
  ["contrast-host", "host-bare", host],
  ["contrast-prompt", "prompt-several", view("Activity"), atNoon],
  ["contrast-network", "network-rules", view("Network"), atNoon],
]) {
  test(`${name} is accessible in high contrast`, () =>
    withWindow(scenario, { theme: "highContrast", ...options }, async (page) => {
      await prepare(page);
      await picture(page, name);
      await assertFits(page);
      await assertAccessible(page);
    }));
}

test("the theme follows the desktop while it is asked to", () =>
  withWindow("one", { theme: "system", colorScheme: "light" }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction((before) => getComputedStyle(document.body).backgroundColor !== before, light);
    assert.equal(light, "rgb(244, 245, 247)");
    assert.equal(await ground(), "rgb(14, 16, 20)");
  }));
