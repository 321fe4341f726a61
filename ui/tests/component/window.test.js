// Badges, state dots and the window around the terminals.
import assert from "node:assert/strict";
import { test } from "node:test";
import { dialog, style, token, useBrowser, withWindow } from "./support.js";

useBrowser();

for (const [backend, words] of [
  ["native", /^native · no kernel boundary$/],
  ["microvm", /^microVM/],
  ["none", /^none/],
]) {
  // REQ BK-7
  test(`a ${backend} session wears the ${backend} badge, in its colour, everywhere`, () =>
    withWindow(`badge-${backend}`, {}, async (page) => {
      const colour = await token(page, `--${backend}`);
      const badge = page.getByTestId("pane-badge");
      assert.match(await badge.innerText(), words);
      assert.equal(await style(badge.locator(".badge").first(), "color"), colour);
      const mini = page.getByTestId("session-row").locator(".badge.mini");
      assert.equal(await style(mini, "background-color"), colour);
      assert.ok(words.source.includes((await mini.getAttribute("aria-label")).split(" ")[0]));
    }));
}

test("gaps stand in the badge, by count, and in words on hover and on focus", () =>
  withWindow("badge-gaps", {}, async (page) => {
    const badge = page.getByTestId("pane-badge");
    assert.match(await badge.innerText(), /2 gaps/);
    await badge.locator(".trigger").first().hover();
    const bubble = page.locator("[popover].bubble");
    await bubble.waitFor();
    assert.match(await bubble.innerText(), /4 protected paths do not exist yet/);
    assert.match(await bubble.innerText(), /filename rules are off/);
    await page.mouse.move(700, 700);
    await bubble.waitFor({ state: "detached" });
    await badge.locator(".trigger").first().focus();
    await bubble.waitFor();
    const described = await badge.locator(".trigger").first().getAttribute("aria-describedby");
    assert.match(await page.locator(`[id="${described}"]`).textContent(), /filename rules are off/);
  }));

for (const [scenario, dot] of [
  ["phase-starting", "starting"],
  ["phase-ready", "ready"],
  ["phase-running", "running"],
  ["phase-suspended", "suspended"],
  ["phase-ended", "ended"],
  ["phase-error", "error"],
]) {
  test(`the state dot says ${dot}`, () =>
    withWindow(scenario, {}, async (page) => {
      const row = page.getByTestId("session-row");
      assert.equal(await row.getAttribute("data-phase"), dot);
      const red = await token(page, "--deny");
      const drawn = await style(row.locator(".dot"), "background-color");
      assert.equal(drawn === red, dot === "error");
    }));
}

for (const scenario of ["phase-starting", "phase-error"]) {
  test(`${scenario}: a session that runs nothing wears no badge`, () =>
    withWindow(scenario, {}, async (page) => {
      assert.equal(await page.locator(".badge").count(), 0);
    }));
}

test("a session in error says what broke, why, and what mends it, where the terminal would be", () =>
  withWindow("phase-error", {}, async (page) => {
    const error = page.getByTestId("pane-error");
    assert.equal(await error.getAttribute("data-code"), "GUARD_NOT_CONFINED");
    const text = await error.innerText();
    assert.match(text, /The guard found itself outside the sandbox/);
    assert.match(text, /Bwrap was replaced since the probe/);
    assert.match(text, /sudo apt-get install --reinstall bubblewrap/);
  }));

test("an ended session tells its exit code", async () => {
  for (const [scenario, words] of [
    ["phase-ended", /\b0\b/],
    ["phase-failed", /\b137\b/],
  ]) {
    await withWindow(scenario, {}, async (page) => {
      assert.match(await page.getByTestId("exit-strip").innerText(), words);
    });
  }
});

test("an empty window teaches how to begin, and its button opens the sheet", () =>
  withWindow("empty", {}, async (page) => {
    await page.getByTestId("new-session").click();
    await dialog(page, "New session").waitFor();
  }));

test("the sheet opened for a split says so and begins in the pane's folder", () =>
  withWindow("splits", {}, async (page) => {
    await page.locator(".xterm-rows").first().waitFor();
    await page.keyboard.press("Control+Shift+E");
    const sheet = dialog(page, "New session, split down");
    await sheet.waitFor();
    assert.equal(await sheet.getByLabel("Folder").inputValue(), "~/code/shop");
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.querySelectorAll("[data-testid=pane]").length === 3);
  }));

test("after a launch the new terminal has the focus", () =>
  withWindow("one", {}, async (page) => {
    await page.locator(".xterm-rows").waitFor();
    await page.keyboard.press("Control+Shift+D");
    await dialog(page, /^New session/).waitFor();
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () =>
        document.activeElement.matches(".xterm-helper-textarea") &&
        document.activeElement.closest("[data-testid=pane]").dataset.sessionId === "session-1",
    );
  }));

test("the pane's menu is worked by keys alone, and gives the focus back", () =>
  withWindow("one", {}, async (page) => {
    await page.locator(".xterm-rows").waitFor();
    const button = page.getByRole("button", { name: "Menu of bash" });
    const menu = page.getByRole("menu");
    const item = () => page.evaluate(() => document.activeElement.textContent.trim().split(/ |Ctrl/)[0]);
    await button.focus();
    await page.keyboard.press("ArrowDown");
    await menu.waitFor();
    const first = await item();
    await page.keyboard.press("ArrowUp");
    assert.equal(await item(), "Close");
    await page.keyboard.press("ArrowDown");
    assert.equal(await item(), first);
    await page.keyboard.press("s");
    assert.equal(await item(), "Suspend");
    await page.keyboard.press("End");
    assert.equal(await item(), "Close");
    await page.keyboard.press("Escape");
    await menu.waitFor({ state: "detached" });
    assert.ok(await button.evaluate((element) => element === document.activeElement));
    await page.keyboard.press("Enter");
    await menu.waitFor();
    await page.keyboard.press("s");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "suspend"));
    await page.locator("[data-testid=session-row][data-phase=suspended]").waitFor();
  }));

test("a click outside closes the pane's menu and does nothing else", () =>
  withWindow("one", {}, async (page) => {
    await page.locator(".xterm-rows").waitFor();
    await page.getByRole("button", { name: "Menu of bash" }).click();
    await page.getByRole("menu").waitFor();
    await page.mouse.click(600, 600);
    await page.getByRole("menu").waitFor({ state: "detached" });
  }));

test("the product holds no stand-in engine", async () => {
  const { build } = await import("vite");
  const { fileURLToPath } = await import("node:url");
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const modules = [];
  await build({
    root,
    configFile: `${root}vite.config.ts`,
    logLevel: "error",
    build: { write: false, minify: false },
    plugins: [
      {
        name: "list",
        generateBundle: (_options, bundle) => {
          for (const chunk of Object.values(bundle)) modules.push(...(chunk.moduleIds ?? []));
        },
      },
    ],
  });
  assert.ok(modules.some((id) => id.endsWith("src/backend/tauri.ts")));
  assert.deepEqual(
    modules.filter((id) => id.includes("fake") || id.includes("/tests/")),
    [],
  );
});
