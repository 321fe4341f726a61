// The command palette and the shortcuts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, dialog, focused, openPalette, useBrowser, withWindow } from "./support.js";

useBrowser();

async function withPalette(scenario, look) {
  await withWindow(scenario, {}, async (page) => {
    await openPalette(page);
    const palette = dialog(page, "Commands");
    await palette.waitFor();
    await look(page, palette);
  });
}

const selected = (palette) => palette.locator("[aria-selected=true]").getAttribute("data-command");

test("every command is listed with its shortcut", () =>
  withPalette("one", async (_page, palette) => {
    const rows = await palette.getByRole("option").allInnerTexts();
    const shown = rows.map((row) => row.split(/\n+/).filter((part) => part.trim() !== ""));
    const keys = Object.fromEntries(shown.map(([title, , shortcut]) => [title, shortcut]));
    const wanted = {
      "New session": "Ctrl+Shift+N",
      "Split right": "Ctrl+Shift+D",
      "Split down": "Ctrl+Shift+E",
      "Next pane": "Ctrl+Shift+Right",
      "Previous pane": "Ctrl+Shift+Left",
      "Find in the terminal": "Ctrl+Shift+F",
      "Copy the selection": "Ctrl+Shift+C",
      Paste: "Ctrl+Shift+V",
    };
    for (const [title, shortcut] of Object.entries(wanted)) assert.equal(keys[title], shortcut, title);
    for (const title of ["Settings", "Host report", "Probe the host again", "Theme: light"]) {
      assert.ok(title in keys, title);
    }
  }));

test("a few letters find a command, and Enter runs it", () =>
  withPalette("one", async (page, palette) => {
    await page.keyboard.type("hrep");
    assert.equal(await selected(palette), "host.open");
    await page.keyboard.press("Enter");
    await dialog(page, "This host").waitFor();
    assert.equal(await palette.count(), 0);
  }));

test("arrows move through the list and round its ends, and the field keeps the focus", () =>
  withPalette("one", async (page, palette) => {
    const first = await selected(palette);
    await page.keyboard.press("ArrowUp");
    const end = await selected(palette);
    assert.notEqual(first, end);
    const active = page.locator(
      `[id="${await page.locator("[role=combobox]").getAttribute("aria-activedescendant")}"]`,
    );
    assert.equal(await active.getAttribute("data-command"), end);
    assert.ok(
      await active.evaluate((element) => {
        const [row, list] = [element, element.parentElement].map((each) => each.getBoundingClientRect());
        return row.top >= list.top && row.bottom <= list.bottom;
      }),
      "the chosen row is in view",
    );
    await page.keyboard.press("ArrowDown");
    assert.equal(await selected(palette), first);
    assert.equal(await focused(page), "Find a command");
  }));

test("a command that cannot act now is dimmed and does nothing, one that can does", () =>
  withPalette("empty", async (page, palette) => {
    await page.keyboard.type("split right");
    const option = palette.getByRole("option", { name: "Split right" });
    assert.equal(await option.getAttribute("aria-disabled"), "true");
    await page.keyboard.press("Enter");
    await option.click({ force: true });
    assert.ok(await palette.isVisible());
    await page.locator("[role=combobox]").fill("new session");
    await page.keyboard.press("Enter");
    await dialog(page, "New session").waitFor();
  }));

test("a click runs a command", () =>
  withPalette("one", async (page, palette) => {
    await palette.getByRole("option", { name: "Theme: light" }).click();
    await palette.waitFor({ state: "detached" });
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "setSettings"));
    assert.equal((await calls(page, "setSettings"))[0][0].theme, "light");
  }));

test("no match says so", () =>
  withPalette("one", async (page, palette) => {
    await page.keyboard.type("zzz");
    await palette.getByText("No command matches “zzz”.").waitFor();
    await page.keyboard.press("Enter");
    assert.ok(await palette.isVisible());
  }));

test("Escape gives the focus back to the terminal", () =>
  withWindow("one", {}, async (page) => {
    await page.locator(".xterm-rows").waitFor();
    await page.locator(".xterm-helper-textarea").focus();
    await openPalette(page);
    await page.keyboard.press("Escape");
    await dialog(page, "Commands").waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement.matches(".xterm-helper-textarea"));
  }));

for (const [keys, name] of [
  ["Control+Shift+N", "New session"],
  ["Control+Shift+P", "Commands"],
  ["Control+Shift+S", "Settings"],
  ["Control+Shift+H", "This host"],
]) {
  test(`${keys} opens ${name}, from inside a terminal too, and types nothing there`, () =>
    withWindow("one", {}, async (page) => {
      await page.locator(".xterm-rows").waitFor();
      await page.locator(".xterm-helper-textarea").focus();
      await page.keyboard.press(keys);
      await dialog(page, name).waitFor();
      assert.deepEqual(await calls(page, "writeInput"), []);
    }));
}

test("plain Ctrl keys go to the terminal", () =>
  withWindow("one", {}, async (page) => {
    await page.locator(".xterm-rows").waitFor();
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.press("Control+N");
    await page.keyboard.press("Control+P");
    await page.waitForFunction(
      () => window.fake.calls.filter((call) => call.method === "writeInput").length >= 2,
    );
    const typed = (await calls(page, "writeInput")).flatMap(([, bytes]) => bytes);
    assert.deepEqual(typed, [14, 16]);
    assert.equal(await page.getByRole("dialog").count(), 0);
  }));
