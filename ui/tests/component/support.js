import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const axeSource = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = fileURLToPath(new URL("../../test-results/pictures/", import.meta.url));

/** @type {import("playwright-core").Browser} */
let browser;

/** Starts one browser for the tests of a file. */
export function useBrowser() {
  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: FLAGS,
    });
  });
  after(() => browser.close());
}

/**
 * Opens the window in a state, hands it to `look`, and fails when the page logged an error or asked
 * for anything beyond its own server.
 */
export async function withWindow(scenario, options, look) {
  // `now` stops nothing: the page's clock starts there, runs on, and can be moved by the test.
  const { theme, width = 1360, height = 860, now, ...rest } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    locale: "en-GB",
    timezoneId: "UTC",
    reducedMotion: "reduce",
    ...rest,
  });
  context.setDefaultTimeout(20_000);
  if (now !== undefined) await context.clock.install({ time: now });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // The software renderer of WebGL talks about its speed.
    if (message.text().includes("GL Driver Message")) return;
    if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
  });
  page.on("requestfailed", (request) => errors.push(`request failed: ${request.url()}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(process.env.KOTAK_HARNESS)) errors.push(`foreign: ${request.url()}`);
  });
  try {
    const query = new URLSearchParams({ scenario, ...(theme ? { theme } : {}) });
    await page.goto(`${process.env.KOTAK_HARNESS}?${query}`);
    await page.locator("html[data-mounted]").waitFor({ state: "attached" });
    await page.evaluate(() => document.fonts.ready.then(() => undefined));
    await look(page);
    assert.deepEqual(errors, [], "the page logged errors");
  } finally {
    await context.close();
  }
}

/** Noon of the samples, as the engine's clock has it. */
export const NOON = Date.UTC(2026, 11, 1, 12, 4, 11);

/** Takes a picture into the results. */
export async function picture(page, name) {
  await page.screenshot({ path: `${pictures}${name}.png`, animations: "disabled", caret: "hide" });
}

/** Fails on accessibility faults of impact serious or critical; `rules` picks some of axe's rules. */
export async function assertAccessible(page, rules) {
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async (picked) => {
    // Terminals draw what programs print, in colours that programs choose.
    const result = await window.axe.run(
      { exclude: [[".xterm-screen"], [".xterm-helpers"], [".xterm-viewport"]] },
      { resultTypes: ["violations"], ...(picked ? { runOnly: picked } : {}) },
    );
    return result.violations
      .filter((each) => each.impact === "serious" || each.impact === "critical")
      .map((each) => ({
        rule: each.id,
        help: each.help,
        nodes: each.nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`),
      }));
  }, rules);
  assert.deepEqual(violations, []);
}

/** Fails when anything sticks out of the window or of a dialog sideways. */
export async function assertFits(page) {
  const out = await page.evaluate(() => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
    if (document.documentElement.scrollHeight > innerHeight) found.push("the page scrolls");
    const inspector = document.querySelector("aside.inspector");
    for (const box of inspector?.querySelectorAll("*") ?? []) {
      const style = getComputedStyle(box);
      if (style.overflowX === "hidden" || style.clipPath !== "none" || box.closest(".uplot, .cut")) continue;
      if (style.overflowX !== "visible" && box.scrollWidth > box.clientWidth + 1) {
        found.push(`${box.tagName}.${box.className} scrolls sideways`);
      }
      const { right, width } = box.getBoundingClientRect();
      if (width > 0 && right > innerWidth + 1) found.push(`${box.tagName}.${box.className} sticks out`);
    }
    for (const dialog of document.querySelectorAll("dialog[open]")) {
      for (const box of [dialog, ...dialog.querySelectorAll("*")]) {
        const style = getComputedStyle(box);
        if (style.overflowX === "visible" || box.clientWidth === 0) continue;
        if (style.textOverflow === "ellipsis" || style.clipPath !== "none") continue;
        if (box.scrollWidth > box.clientWidth + 1) {
          found.push(`${box.tagName}.${box.className} is ${box.scrollWidth - box.clientWidth} px too wide`);
        }
      }
      const { left, right, top, bottom } = dialog.getBoundingClientRect();
      if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) {
        found.push("a dialog sticks out of the window");
      }
    }
    return found;
  });
  assert.deepEqual(out, []);
}

/** The calls that the window made, of one method. */
export function calls(page, method) {
  return page.evaluate(
    (wanted) => window.fake.calls.filter((call) => call.method === wanted).map((call) => call.args),
    method,
  );
}

export function clipboard(page) {
  return page.evaluate(() => window.fake.clipboard);
}

export function style(locator, property) {
  return locator.evaluate((element, name) => getComputedStyle(element).getPropertyValue(name), property);
}

/** A token of the theme, as computed styles spell colours. */
export function token(page, name) {
  return page.evaluate((wanted) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${wanted})`;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  }, name);
}

/** Changes the theme of an open window, as a setting changed elsewhere would. */
export async function changeTheme(page, theme) {
  const before = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.evaluate((wanted) => {
    const { settings } = window.fake.world.snapshot;
    window.fake.tell([{ type: "settings", settings: { ...settings, theme: wanted } }]);
  }, theme);
  await page.waitForFunction((old) => document.documentElement.dataset.theme !== old, before);
}

/** What has the focus, in a few words. */
export function focused(page) {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (element === null || element === document.body) return "nothing";
    const label =
      element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
    return label.trim().replace(/\s+/g, " ");
  });
}

export function dialog(page, name) {
  return page.getByRole("dialog", { name });
}

export const openSheet = (page) => page.keyboard.press("Control+Shift+N");
export const openPalette = (page) => page.keyboard.press("Control+Shift+P");
