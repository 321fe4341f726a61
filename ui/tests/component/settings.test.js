// Settings, and notices of what could not be kept.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, clipboard, dialog, useBrowser, withWindow } from "./support.js";

useBrowser();

async function withSettings(scenario, look) {
  await withWindow(scenario, {}, async (page) => {
    await page.keyboard.press("Control+Shift+S");
    const settings = dialog(page, "Settings");
    await settings.waitFor();
    await look(page, settings);
  });
}

const last = async (page) => (await calls(page, "setSettings")).at(-1)?.[0];
const stored = (page, count) =>
  page.waitForFunction(
    (wanted) => window.fake.calls.filter((call) => call.method === "setSettings").length === wanted,
    count,
  );

test("a theme takes effect at once", () =>
  withSettings("settings", async (page, settings) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), "rgb(14, 16, 20)");
    await settings.getByRole("radio", { name: "Light" }).check();
    await stored(page, 1);
    assert.equal(await ground(), "rgb(244, 245, 247)");
    await settings.getByRole("radio", { name: "High contrast" }).check();
    await stored(page, 2);
    assert.equal(await ground(), "rgb(0, 0, 0)");
    assert.equal((await last(page)).theme, "highContrast");
  }));

test("each switch changes its own setting and nothing else", () =>
  withSettings("settings", async (page, settings) => {
    const before = await page.evaluate(() => window.fake.world.snapshot.settings);
    const names = {
      "Ask before pasting more than one line": "warnMultilinePaste",
      "Ask before closing a pane whose program runs": "confirmClose",
      "Screen reader mode in terminals": "screenReader",
      "Draw terminals with WebGL": "webgl",
      "Tell of questions on the desktop": "notifyPrompts",
    };
    let wanted = before;
    let count = 0;
    for (const [name, key] of Object.entries(names)) {
      await settings.getByRole("checkbox", { name }).click();
      await stored(page, ++count);
      wanted = { ...wanted, [key]: !before[key] };
      assert.deepEqual(await last(page), wanted);
    }
  }));

// REQ EG-9
test("the countdown of questions is 10 to 600 seconds", () =>
  withSettings("settings", async (page, settings) => {
    const seconds = settings.getByLabel("Denied after");
    assert.equal(await seconds.inputValue(), "60");
    for (const bad of ["9", "601"]) {
      await seconds.fill(bad);
      await page.keyboard.press("Enter");
      await settings.getByText("Not kept: must be 10 to 600 seconds without an answer").waitFor();
    }
    assert.equal(await last(page), undefined);
    await seconds.fill("120");
    await page.keyboard.press("Enter");
    await stored(page, 1);
    assert.equal((await last(page)).promptSeconds, 120);
  }));

test("a number out of range is not kept, and says what the range is", () =>
  withSettings("settings", async (page, settings) => {
    const size = settings.getByLabel("Font size");
    for (const bad of ["4", "41", "13.5", ""]) {
      await size.fill(bad);
      await page.keyboard.press("Enter");
      assert.equal(await settings.getByRole("alert").innerText(), "Not kept: must be 8 to 40 px");
      assert.equal(await size.getAttribute("aria-invalid"), "true");
    }
    assert.deepEqual(await calls(page, "setSettings"), []);
    await size.fill("16");
    await page.keyboard.press("Enter");
    await stored(page, 1);
    assert.equal((await last(page)).fontSize, 16);
    assert.equal(await settings.getByRole("alert").count(), 0);
    await settings.getByLabel("Scrollback").fill("200001");
    await page.keyboard.press("Tab");
    assert.equal(await settings.getByRole("alert").innerText(), "Not kept: must be 1,000 to 200,000 lines");
  }));

test("a font family is sent as typed, and empty means the bundled one", () =>
  withSettings("settings", async (page, settings) => {
    const family = settings.getByLabel("Font family");
    assert.equal(await family.getAttribute("placeholder"), "JetBrains Mono, bundled");
    await family.fill("Fira Code ");
    await page.keyboard.press("Tab");
    await stored(page, 1);
    assert.equal((await last(page)).fontFamily, "Fira Code");
  }));

test("a setting that could not be stored goes back, with the reason in view", () =>
  withSettings("settings-refused", async (page, settings) => {
    await settings.getByRole("radio", { name: "Light" }).click();
    const alert = settings.getByRole("alert");
    await alert.waitFor();
    assert.match(
      await alert.innerText(),
      /The settings could not be written to[^]*No space left on device\./,
    );
    assert.equal(await page.getByRole("region", { name: "Notices" }).count(), 0);
    await page.waitForFunction(() => document.querySelector("input[value=dark]").checked);
    assert.equal(
      await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
      "rgb(14, 16, 20)",
    );
  }));

test("notices are where the user looks, with fix, and go when dismissed", () =>
  withWindow("notices", {}, async (page) => {
    const notices = page.getByRole("region", { name: "Notices" });
    for (const words of [
      "The database was damaged and has been set aside.",
      "The log file cannot be written.",
      "The state folder cannot be written, so nothing is remembered after this run.",
    ]) {
      await notices.getByText(words).waitFor();
    }
    await notices.getByRole("button", { name: "Copy command" }).click();
    await notices.getByText("Copied").waitFor();
    assert.equal(await clipboard(page), "sudo chown -R mira: /home/mira/.local/state/kotak");
    await notices.getByRole("button", { name: "Dismiss: the log file" }).click();
    await notices.getByText("The log file cannot be written.").waitFor({ state: "detached" });
    assert.equal(await notices.getByRole("button", { name: /^Dismiss/ }).count(), 2);
    for (const left of [1, 0]) {
      await notices
        .getByRole("button", { name: /^Dismiss/ })
        .first()
        .click();
      await page.waitForFunction(
        (count) => document.querySelectorAll("[aria-label^=Dismiss]").length === count,
        left,
      );
    }
    assert.equal(await notices.count(), 0);
  }));

test("a notice that comes while the window is open is shown", () =>
  withWindow("one", {}, async (page) => {
    await page.evaluate(() =>
      window.fake.tell([
        {
          type: "notice",
          notice: {
            code: "LOG_UNWRITABLE",
            message: "the log\u202e cannot be written",
            causes: [],
            fix: null,
          },
        },
      ]),
    );
    await page.getByText("The log\\u{202e} cannot be written.").waitFor();
  }));
