// The new-session sheet.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  calls,
  clipboard,
  dialog,
  focused,
  openSheet,
  style,
  token,
  useBrowser,
  withWindow,
} from "./support.js";

useBrowser();

const HOME = "/home/mira";
const SHOP = `${HOME}/code/shop`;

async function withSheet(scenario, look) {
  await withWindow(scenario, {}, async (page) => {
    await openSheet(page);
    const sheet = dialog(page, /^New session/);
    await sheet.waitFor();
    await settled(page);
    await look(page, sheet);
  });
}

/** The summary is about what stands in the sheet now. */
async function settled(page) {
  await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
}

const card = (sheet, name) => sheet.getByRole("radio", { name });
const openButton = (sheet) => sheet.getByRole("button", { name: "Open", exact: false });

test("Enter alone launches the last choice made in the folder", () =>
  withSheet("sheet-last", async (page, sheet) => {
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    const { cols, rows, ...rest } = request;
    assert.deepEqual(rest, {
      program: { kind: "preset", id: "codex" },
      cwd: SHOP,
      backend: "native",
      network: "off",
      extraDomains: [],
      portForwards: [],
      socketGrants: [],
      mode: "review",
      protectedPaths: [`${SHOP}/migrations`],
      execRestriction: "off",
    });
    assert.ok(cols > 0 && rows > 0);
  }));

test("Enter need not wait for the engine's preview", () =>
  withWindow("sheet-last", {}, async (page) => {
    await page.evaluate(() => window.fake.hold());
    await openSheet(page);
    const sheet = dialog(page, "New session");
    await sheet.waitFor();
    await page.keyboard.press("Enter");
    await sheet.getByRole("button", { name: "Opening…" }).waitFor();
    const [[request]] = await calls(page, "launch");
    assert.deepEqual([request.cwd, request.backend, request.mode], [SHOP, "native", "review"]);
    await page.evaluate(() => window.fake.release());
    await sheet.waitFor({ state: "detached" });
  }));

test("another folder brings its own last choice", () =>
  withSheet("sheet-last", async (page, sheet) => {
    await sheet.getByLabel("Folder").fill("~/notes");
    await settled(page);
    assert.ok(await card(sheet, /^none/).isChecked());
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.deepEqual(
      [request.cwd, request.backend, request.network, request.program.kind],
      [`${HOME}/notes`, "none", null, "shell"],
    );
  }));

test("a folder inside a repository takes the repository's last choice", () =>
  withSheet("sheet-last", async (page, sheet) => {
    await sheet.getByLabel("Folder").fill("~/code/shop/src");
    await settled(page);
    await sheet.getByText("git in ~/code/shop · main").waitFor();
    assert.ok(await sheet.getByRole("radio", { name: "Codex" }).isChecked());
    assert.equal(await sheet.getByLabel("Folder").inputValue(), "~/code/shop/src");
  }));

test("an answer given by hand outlives a change of folder", () =>
  withSheet("sheet-last", async (page, sheet) => {
    await sheet.getByRole("radio", { name: "Off" }).check();
    await sheet.getByRole("radio", { name: "Shell", exact: true }).check();
    await sheet.getByLabel("Folder").fill("~/notes");
    await settled(page);
    assert.ok(await card(sheet, /^native/).isChecked());
    assert.ok(await sheet.getByRole("radio", { name: "Off" }).isChecked());
  }));

// REQ BK-6
test("nothing is preselected that the host cannot do, and none never stands in for it", () =>
  withSheet("sheet-last-lost", async (page, sheet) => {
    for (const name of [/^microVM/, /^native/, /^none/]) {
      assert.equal(await card(sheet, name).isChecked(), false, String(name));
    }
    assert.ok(await openButton(sheet).isDisabled());
    await sheet.getByText("Choose a sandbox.").waitFor();
    await page.keyboard.press("Enter");
    assert.deepEqual(await calls(page, "launch"), []);
    // The program of the last choice is gone too.
    assert.ok(await sheet.getByRole("radio", { name: "Shell", exact: true }).isChecked());
  }));

test("the strongest sandbox that is there is preselected", async () => {
  await withSheet("sheet-all", async (_page, sheet) => {
    assert.ok(await card(sheet, /^microVM/).isChecked());
  });
  await withSheet("sheet-usual", async (_page, sheet) => {
    assert.ok(await card(sheet, /^native/).isChecked());
  });
});

test("an unavailable card cannot be chosen by pointer or keyboard, and an available one can", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    assert.ok(await card(sheet, /^microVM/).isDisabled());
    await card(sheet, /^microVM/).click({ force: true });
    assert.equal(await card(sheet, /^microVM/).isChecked(), false);
    await card(sheet, /^native/).focus();
    const seen = [];
    for (let step = 0; step < 3; step++) {
      await page.keyboard.press("ArrowRight");
      seen.push(await page.evaluate(() => document.activeElement.value));
    }
    assert.deepEqual(seen, ["none", "native", "none"]);
    assert.ok(await card(sheet, /^none/).isChecked());
  }));

test("an unavailable card says why and how to get it, with the exact command to copy", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByText("KVM is present but emulates guest kernel code.").first().waitFor();
    const button = sheet.getByRole("button", { name: "Why, and what to do: microVM is not available" });
    assert.equal(await button.getAttribute("aria-expanded"), "false");
    await button.focus();
    await page.keyboard.press("Enter");
    assert.equal(await button.getAttribute("aria-expanded"), "true");
    await sheet.getByText("Use a host with hardware virtualisation, and install QEMU there.").waitFor();
    await sheet.getByRole("button", { name: "Copy command sudo apt-get install qemu-system-x86" }).click();
    await sheet.getByText("Copied").waitFor();
    assert.equal(await clipboard(page), "sudo apt-get install qemu-system-x86");
    // Asking why launched nothing.
    assert.deepEqual(await calls(page, "launch"), []);
  }));

test("a card that needs an install says so", () =>
  withSheet("sheet-bare", async (_page, sheet) => {
    await sheet.getByText("Not available, needs an install.").waitFor();
    await sheet.getByText("Bubblewrap and socat are not installed.").waitFor();
  }));

test("programs that are not on PATH are there, disabled, and say so", () =>
  withSheet("sheet-usual", async (_page, sheet) => {
    assert.ok(await sheet.getByRole("radio", { name: "Claude Code" }).isEnabled());
    const codex = sheet.getByRole("radio", { name: "Codex not on PATH" });
    assert.ok(await codex.isDisabled());
  }));

test("none is drawn in amber, and only none is", () =>
  withSheet("sheet-all", async (page, sheet) => {
    const amber = await token(page, "--none");
    const accent = await token(page, "--accent");
    const border = (name) => style(sheet.locator(`.card.${name}`), "border-top-color");
    await card(sheet, /^none/).check();
    assert.equal(await border("none"), amber);
    assert.equal(await style(sheet.locator(".card.none .badge"), "color"), amber);
    await card(sheet, /^native/).check();
    assert.equal(await border("native"), accent);
    assert.equal(await style(sheet.locator(".card.native .badge"), "color"), await token(page, "--native"));
    assert.equal(await style(sheet.locator(".card.microvm .badge"), "color"), await token(page, "--microvm"));
  }));

test("nothing in the sheet is red until something is refused", async () => {
  const reds = (sheet, red) =>
    sheet.evaluate(
      (root, colour) =>
        [...root.querySelectorAll("*")].filter((element) => getComputedStyle(element).color === colour)
          .length,
      red,
    );
  await withSheet("sheet-usual", async (page, sheet) => {
    assert.equal(await reds(sheet, await token(page, "--deny")), 0);
  });
  await withSheet("sheet-refused", async (page, sheet) => {
    assert.notEqual(await reds(sheet, await token(page, "--deny")), 0);
  });
});

test("network is hidden for none, which says whose network it is", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("radio", { name: "Allowlist" }).check();
    await card(sheet, /^none/).check();
    assert.equal(await sheet.getByRole("radio", { name: "Allowlist" }).count(), 0);
    await sheet.getByText("A none session uses your network as you do.").waitFor();
    await settled(page);
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.equal(request.network, null);
  }));

for (const [name, words] of [
  ["Open · not observed", "connections are not observed"],
  ["Allowlist", "Listed domains pass: model providers, Git hosts, package registries, and those you add."],
  ["Ask first", "For any other you are asked while the program waits; without an answer it is refused."],
  ["Off", "No route out: the session reaches only itself."],
]) {
  test(`network ${name} says what it means`, () =>
    withSheet("sheet-usual", async (_page, sheet) => {
      await sheet.getByRole("radio", { name }).check();
      await sheet.getByText(words).waitFor();
    }));
}

// REQ TM-5
test("extra domains go with a network that lists, and the summary counts them", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    const domains = sheet.getByLabel("Extra domains for this session");
    assert.equal(await domains.count(), 0);
    await sheet.getByRole("radio", { name: "Ask first" }).check();
    await domains.fill("files.example.com *.example.org");
    await settled(page);
    await sheet.getByText("14 domains").waitFor();
    await sheet.getByText("asks").first().waitFor();
    await openButton(sheet).click();
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.deepEqual(
      [request.network, request.extraDomains],
      ["ask", ["files.example.com", "*.example.org"]],
    );
  }));

test("an extra domain that is no pattern is refused before the launch, in the engine's words", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("radio", { name: "Allowlist" }).check();
    await sheet.getByLabel("Extra domains for this session").fill("*.com");
    await settled(page);
    assert.match(
      await sheet.getByRole("alert").innerText(),
      /The extra domain \*\.com is not a host pattern\./,
    );
    assert.ok(await openButton(sheet).isDisabled());
    // Another network takes no domain, and loses none.
    await sheet.getByRole("radio", { name: "Off" }).check();
    await settled(page);
    assert.ok(await openButton(sheet).isEnabled());
    await sheet.getByRole("radio", { name: "Allowlist" }).check();
    assert.equal(await sheet.getByLabel("Extra domains for this session").inputValue(), "*.com");
  }));

test("the summary comes from the engine, with its emphasis, and follows the choice", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    const summary = sheet.locator("[aria-live=polite]");
    assert.match(await summary.innerText(), /Can write to ~\/code\/shop and your home/);
    assert.ok((await summary.locator("b").allInnerTexts()).includes("your home"));
    assert.doesNotMatch(await summary.innerText(), /\*\*/);
    await sheet.getByRole("button", { name: "More" }).click();
    await sheet.getByRole("radio", { name: "Review" }).check();
    await summary.getByText("nothing of yours").waitFor();
    await settled(page);
    const asked = await calls(page, "preview");
    assert.deepEqual([asked.at(-1)[0].mode, asked.at(-1)[0].backend], ["review", "native"]);
  }));

test("typing asks the engine once the typing pauses", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    const before = (await calls(page, "preview")).length;
    await sheet.getByLabel("Folder").fill("");
    await page.keyboard.type("~/some/other/folder");
    await settled(page);
    const asked = (await calls(page, "preview")).slice(before).map(([request]) => request.cwd);
    assert.equal(asked.at(-1), `${HOME}/some/other/folder`);
    assert.ok(asked.length < 10, `asked ${asked.length} times for 19 letters`);
  }));

test("a late answer to an earlier question is dropped", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await page.evaluate(() => window.fake.hold());
    await sheet.getByLabel("Folder").fill("~/first");
    await page.waitForFunction(() => window.fake.held.length === 1);
    const first = await page.evaluateHandle(() => window.fake.held.splice(0)[0]);
    await sheet.getByLabel("Folder").fill("~/second");
    await page.waitForFunction(() => window.fake.held.length === 1);
    await page.evaluate(() => window.fake.release());
    const summary = sheet.locator("[aria-live=polite]");
    await summary.getByText("~/second").waitFor();
    await first.evaluate((go) => go());
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
    assert.match(await summary.innerText(), /~\/second/);
  }));

test("gaps are named before the launch", () =>
  withSheet("sheet-gaps", async (_page, sheet) => {
    await sheet.getByText("4 protected paths do not exist yet, and creating them is not refused.").waitFor();
    await sheet.getByText("Filename rules are off", { exact: false }).waitFor();
  }));

test("a refusal by the preview is shown with its fix, and Open is off", () =>
  withSheet("sheet-refused", async (page, sheet) => {
    const alert = sheet.getByRole("alert");
    assert.match(await alert.innerText(), /is inside a secret that sandboxes cannot read\./);
    assert.match(await alert.innerText(), /Choose a folder outside ~\/\.ssh\./);
    assert.ok(await openButton(sheet).isDisabled());
    await page.keyboard.press("Enter");
    assert.deepEqual(await calls(page, "launch"), []);
  }));

test("a refusal by the launch is shown in the sheet, which stays and can be tried again", () =>
  withSheet("sheet-launch-refused", async (page, sheet) => {
    await page.keyboard.press("Enter");
    const alert = sheet.getByRole("alert");
    await alert.waitFor();
    assert.match(await alert.innerText(), /No terminal could be opened\./);
    assert.match(await alert.innerText(), /Openpty: no space left on device\./);
    assert.equal(await style(alert.locator(".message"), "color"), await token(page, "--deny"));
    assert.ok(await openButton(sheet).isEnabled());
    await sheet.getByRole("radio", { name: "Off" }).check();
    assert.equal(await alert.count(), 0);
  }));

test("a launch under way cannot be started twice, nor the sheet closed over it", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await page.evaluate(() => window.fake.hold());
    await page.keyboard.press("Enter");
    await sheet.getByRole("button", { name: "Opening…" }).waitFor();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    assert.ok(await sheet.isVisible());
    assert.equal((await calls(page, "launch")).length, 1);
    await page.evaluate(() => window.fake.release());
    await sheet.waitFor({ state: "detached" });
  }));

test("a session that broke at launch is a pane with its error, and wears no badge", () =>
  withSheet("sheet-breaks", async (page, sheet) => {
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    await page.getByText("The guard found itself outside the sandbox", { exact: false }).first().waitFor();
    assert.equal(await page.locator(".badge").count(), 0);
  }));

test("a folder that does not exist is told inline, and Open is off", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    const folder = sheet.getByLabel("Folder");
    await folder.fill("~/gone");
    await sheet.getByText("No such folder").waitFor();
    assert.equal(await folder.getAttribute("aria-invalid"), "true");
    assert.ok(await openButton(sheet).isDisabled());
    await folder.fill("~/code/shop");
    await sheet.getByText("git · main").waitFor();
    await settled(page);
    assert.ok(await openButton(sheet).isEnabled());
  }));

test("a relative folder is not sent anywhere", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByLabel("Folder").fill("code");
    await sheet.getByText("Write the whole path, from / or ~.").waitFor();
    await settled(page);
    const asked = [...(await calls(page, "preview")), ...(await calls(page, "folderInfo"))];
    assert.equal(asked.filter(([what]) => (what.cwd ?? what) === "code").length, 0);
    assert.ok(await openButton(sheet).isDisabled());
  }));

test("recent folders open from the field by keyboard, and Escape leaves only the list", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByLabel("Folder").focus();
    await page.keyboard.press("ArrowDown");
    const menu = page.getByRole("menu", { name: "Recent folders" });
    await menu.waitFor();
    await page.keyboard.press("Escape");
    await menu.waitFor({ state: "detached" });
    assert.ok(await sheet.isVisible());
    await sheet.getByLabel("Folder").focus();
    await page.keyboard.press("ArrowDown");
    await menu.waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await menu.waitFor({ state: "detached" });
    assert.equal(await sheet.getByLabel("Folder").inputValue(), "~/notes");
    assert.deepEqual(await calls(page, "launch"), []);
  }));

test("a folder can be picked in the system's dialog, and cancelling it changes nothing", async () => {
  await withSheet("sheet-picks", async (_page, sheet) => {
    await sheet.getByRole("button", { name: "Browse…" }).click();
    await sheet.page().waitForFunction(() => window.fake.calls.some((call) => call.method === "pickFolder"));
    await sheet.locator("b", { hasText: "~/code/kettle" }).waitFor();
    assert.equal(await sheet.getByLabel("Folder").inputValue(), "~/code/kettle");
  });
  await withSheet("sheet-usual", async (page, sheet) => {
    const before = await sheet.getByLabel("Folder").inputValue();
    await sheet.getByRole("button", { name: "Browse…" }).click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "pickFolder"));
    assert.equal(await sheet.getByLabel("Folder").inputValue(), before);
  });
});

test("a command line is asked for and sent as it was typed", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("radio", { name: "Command…" }).check();
    await sheet.getByText("Write a command.").waitFor();
    assert.ok(await openButton(sheet).isDisabled());
    await sheet.getByLabel("Command line").fill(`make "a b" 'c'`);
    await settled(page);
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.deepEqual(request.program, { kind: "command", line: `make "a b" 'c'` });
  }));

test("Enter in the list of protected paths starts a line and launches nothing", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("button", { name: "More" }).click();
    await sheet.getByLabel("Protected paths").focus();
    await page.keyboard.type("~/a");
    await page.keyboard.press("Enter");
    await page.keyboard.type("b");
    await sheet.getByText("must start from / or ~").waitFor();
    assert.deepEqual(await calls(page, "launch"), []);
    await sheet.getByLabel("Protected paths").fill("~/a\n/etc/b");
    await settled(page);
    await openButton(sheet).click();
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.deepEqual(request.protectedPaths, [`${HOME}/a`, "/etc/b"]);
  }));

// REQ BW-6
test("programs in writable folders are let run unless that is chosen, and the choice is sent", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("button", { name: "More" }).click();
    const group = sheet.getByRole("group", { name: "Programs in folders that it can write" });
    assert.ok(await group.getByLabel("May run").isChecked());
    await group.getByLabel("Refused").check({ force: true });
    await sheet.getByText(/does not run, but in folders that you approve/).waitFor();
    await settled(page);
    await openButton(sheet).click();
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.equal(request.execRestriction, "writable");
    await page.getByRole("tab", { name: "About" }).click();
    await page.getByText("refused in folders that it can write").waitFor();
  }));

test("a probe that takes the chosen sandbox away takes the choice away", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await page.evaluate(() => {
      const { host } = window.fake.world.snapshot;
      const problem = { code: "NATIVE_UNAVAILABLE", message: "bwrap is gone", causes: [], fix: null };
      const backends = host.backends.map((report) =>
        report.backend === "native" ? { ...report, available: false, problem } : report,
      );
      window.fake.tell([{ type: "host", host: { ...host, backends } }]);
    });
    await sheet.getByText("Choose a sandbox.").waitFor();
    assert.equal(await card(sheet, /^native/).isChecked(), false);
    assert.ok(await openButton(sheet).isDisabled());
  }));

test("the whole sheet is reached by Tab, and Tab stays inside", () =>
  withSheet("sheet-usual", async (page) => {
    const stops = [];
    for (let step = 0; step < 12; step++) {
      stops.push(await focused(page));
      assert.ok(
        await page.evaluate(() => document.querySelector("dialog").contains(document.activeElement)),
        `outside after ${stops.join(", ")}`,
      );
      await page.keyboard.press("Tab");
    }
    const round = stops.indexOf(stops[0], 1);
    assert.deepEqual(stops.slice(0, round), [
      "Shell",
      "Folder",
      "Recent",
      "Browse…",
      "Why, and what to do: microVM is not available",
      "native Namespaces on this kernel",
      "Open · not observed",
      "More: mode, paths, programs, ports",
      "Cancel",
      "Open ↵",
    ]);
    await page.keyboard.press("Shift+Tab");
  }));

test("Escape, Cancel and a click outside close it; a click inside does not", async () => {
  for (const leave of [
    (page) => page.keyboard.press("Escape"),
    (page) => page.getByRole("button", { name: "Cancel" }).click(),
    (page) => page.mouse.click(20, 500),
  ]) {
    await withSheet("sheet-usual", async (page, sheet) => {
      const box = await sheet.boundingBox();
      await page.mouse.click(box.x + 12, box.y + 12);
      assert.ok(await sheet.isVisible());
      await leave(page);
      await sheet.waitFor({ state: "detached" });
      assert.deepEqual(await calls(page, "launch"), []);
    });
  }
});

test("a press inside that ends outside does not close it", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    const box = await sheet.boundingBox();
    await page.mouse.move(box.x + 30, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(20, 500);
    await page.mouse.up();
    assert.ok(await sheet.isVisible());
  }));

// REQ EG-12
test("ports and sockets are asked for under More, where the session has a network of its own", () =>
  withSheet("sheet-usual", async (page, sheet) => {
    await sheet.getByRole("button", { name: /^More/ }).click();
    await sheet.getByText(/Granted one by one to sessions with a network of their own/).waitFor();
    assert.equal(await sheet.getByLabel("Opened here from inside").count(), 0);
    await sheet.getByRole("radio", { name: "Allowlist" }).check();
    await sheet.getByLabel("Opened here from inside").fill("3000 http");
    await sheet.getByText("“http” is no port").waitFor();
    assert.ok(await openButton(sheet).isDisabled());
    await sheet.getByLabel("Opened here from inside").fill("3000 5173:8080");
    await sheet.getByLabel("Reached here from inside").fill("5432");
    await sheet.getByLabel(/Your ssh agent/).check();
    await sheet.getByLabel("Sockets, one a line").fill("/run/db.sock");
    await settled(page);
    await openButton(sheet).click();
    await sheet.waitFor({ state: "detached" });
    const [[request]] = await calls(page, "launch");
    assert.deepEqual(request.portForwards, [
      { direction: "in", guestPort: 3000, hostPort: 3000 },
      { direction: "in", guestPort: 5173, hostPort: 8080 },
      { direction: "out", guestPort: 5432, hostPort: 5432 },
    ]);
    assert.deepEqual(request.socketGrants, [{ hostPath: "ssh-agent" }, { hostPath: "/run/db.sock" }]);
  }));
