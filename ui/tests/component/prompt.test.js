// Ask-first questions: the card, its answers, its countdown, and whose focus it never takes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOON, calls, focused, picture, useBrowser, withWindow } from "./support.js";

useBrowser();

const curl = {
  pid: 41,
  name: "curl",
  executable: "/usr/bin/curl",
  command: "curl -fsSL https://files.example.com/install.sh",
  cwd: "/home/mira/code/shop",
  parents: ["bash", "make", "claude"],
};

/** The window with one session that asks first, on a clock that stands until it is moved. */
async function asking(look, options = {}) {
  await withWindow("network", { now: NOON, ...options }, async (page) => {
    await page.locator(".xterm-rows").first().waitFor();
    await page.waitForFunction(() => document.activeElement.matches(".xterm-helper-textarea"));
    await page.clock.pauseAt(NOON + 5_000);
    await look(page);
  });
}

const attempt = (page, part = {}) =>
  page.evaluate((given) => window.fake.network.attempt(given), {
    session: "a",
    host: "files.example.com",
    parent: "*.example.com",
    process: curl,
    ...part,
  });
const card = (page) => page.getByTestId("prompt-card");
const button = (page, answer) => card(page).locator(`[data-answer=${answer}]`);
const later = (page, ms = 600) => page.clock.runFor(ms);
const answers = (page) => calls(page, "answerPrompt");
const outcome = (page) =>
  page.evaluate(async () => {
    const { wholeHistory } = window;
    const page = await window.fake.activity({ ...wholeHistory, limit: 1 });
    const [row] = page.rows;
    return [row.target, row.outcome, row.connection.denied];
  });
const inTerminal = (page) => page.evaluate(() => document.activeElement.matches(".xterm-helper-textarea"));

test("a question says who wants to reach what, and everything to decide by", () =>
  asking(async (page) => {
    await attempt(page);
    await attempt(page);
    const text = await card(page).innerText();
    assert.match(text, /^curl wants to reach\s+files\.example\.com:443/);
    assert.match(text, /sh in shop\s+native/);
    assert.match(text, /curl -fsSL https:\/\/files\.example\.com\/install\.sh/);
    assert.match(text, /~\/code\/shop/);
    assert.match(text, /bash ‹ make ‹ claude/);
    assert.match(text, /2 attempts wait · first asked 12:04:16 · no allowed connection in the history/);
    assert.match(text, /Denied in \d+ s unless you answer/);
    assert.match(
      await page.getByTestId("needs-you").innerText(),
      /Needs you\s*1[\s\S]*files\.example\.com:443/i,
    );
    assert.match(await page.getByTestId("pane-pending").innerText(), /1 waiting/);
  }));

// REQ EG-9
for (const [answer, rule, row] of [
  ["deny", null, "refused"],
  ["allowOnce", null, "open"],
  ["denySession", [false, "a"], "refused"],
  ["allowSession", [true, "a"], "open"],
  ["allowWorkspace", [true, null], "open"],
]) {
  test(`${answer} does what it says, and stores ${rule ? "one rule" : "nothing"}`, () =>
    asking(async (page) => {
      await attempt(page);
      await later(page);
      await button(page, answer).click();
      await card(page).waitFor({ state: "detached" });
      assert.deepEqual(await answers(page), [["prompt-1", answer, "hostPort"]]);
      const rules = await page.evaluate(async () => (await window.fake.snapshot()).rules);
      assert.deepEqual(
        rules.map(({ pattern, allow, sessionId, workspace }) => [pattern, allow, sessionId, workspace]),
        rule ? [["files.example.com:443", ...rule, "/home/mira/code/shop"]] : [],
      );
      assert.deepEqual((await outcome(page)).slice(0, 2), ["files.example.com:443", row]);
      // The next attempt is asked about only where nothing was stored.
      await attempt(page);
      assert.equal(await card(page).count(), rule ? 0 : 1);
    }));
}

test("the scope decides what is stored, and the rule is shown before", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page);
    const rule = page.getByTestId("prompt-rule");
    assert.match(
      await rule.innerText(),
      /files\.example\.com:443, this port only: may be reached by sh until it ends/,
    );
    await card(page).getByRole("radio", { name: "*.example.com" }).check();
    await button(page, "allowWorkspace").hover();
    assert.match(
      await rule.innerText(),
      /“Always in this workspace” stores \*\.example\.com, any host below it, any port: may be reached by every session in ~\/code\/shop/,
    );
    await button(page, "deny").hover();
    assert.match(await rule.innerText(), /“Deny” stores nothing/);
    await button(page, "allowWorkspace").click();
    assert.deepEqual(await answers(page), [["prompt-1", "allowWorkspace", "parent"]]);
    // What the answer covers is settled with it.
    await attempt(page, { host: "other.example.com" });
    assert.equal(await card(page).count(), 0);
  }));

test("an answer settles everything that waits and that it covers", () =>
  asking(async (page) => {
    await attempt(page);
    await attempt(page, { host: "cdn.example.com" });
    await attempt(page, { host: "other.example.net", parent: "*.example.net" });
    await later(page);
    await card(page).getByRole("radio", { name: "*.example.com" }).check();
    await button(page, "allowSession").click();
    await page.getByText("Needs you 1").first().waitFor();
    assert.match(await card(page).innerText(), /other\.example\.net/);
  }));

test("a click within half a second of the card's appearance is ignored, a later one is not", () =>
  asking(async (page) => {
    await attempt(page);
    await button(page, "allowOnce").click();
    await later(page, 480);
    await button(page, "allowOnce").click();
    assert.deepEqual(await answers(page), []);
    await later(page, 40);
    await button(page, "allowOnce").click();
    await card(page).waitFor({ state: "detached" });
    assert.equal((await answers(page)).length, 1);
  }));

test("a shortcut within half a second is ignored too", () =>
  asking(async (page) => {
    await attempt(page);
    await card(page).focus();
    await page.keyboard.press("Control+Shift+Y");
    assert.deepEqual(await answers(page), []);
    await later(page);
    await page.keyboard.press("Control+Shift+Y");
    await card(page).waitFor({ state: "detached" });
    assert.deepEqual(await answers(page), [["prompt-1", "allowOnce", "hostPort"]]);
  }));

test("the card that moves up under the pointer does not take the second half of a double click", () =>
  asking(async (page) => {
    await attempt(page);
    await attempt(page, { host: "second.example.com" });
    await later(page);
    await button(page, "deny").dblclick();
    await page.getByText("Needs you 1").first().waitFor();
    assert.deepEqual(await answers(page), [["prompt-1", "deny", "hostPort"]]);
    await later(page);
    await button(page, "deny").click();
    assert.equal((await answers(page)).length, 2);
  }));

test("no question takes the focus from the terminal, and what is typed goes there", () =>
  asking(async (page) => {
    await page.keyboard.type("make ");
    for (let at = 0; at < 5; at++) await attempt(page, { host: `host-${at}.example.com` });
    await later(page);
    assert.ok(await inTerminal(page));
    await page.keyboard.type("test y\n");
    await later(page, 61_000);
    assert.ok(await inTerminal(page));
    const typed = (await calls(page, "writeInput")).flatMap(([, bytes]) => bytes);
    assert.equal(String.fromCharCode(...typed), "make test y\r");
    assert.deepEqual(await answers(page), []);
  }));

test("the queue is called by key; Enter and Space on the card answer nothing, and Allow has no focus", () =>
  asking(async (page) => {
    await attempt(page);
    await page.keyboard.press("Control+Shift+J");
    await later(page);
    assert.match(await focused(page), /^curl wants to reach files\.example\.com:443/);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Space");
    assert.deepEqual(await answers(page), []);
    await page.keyboard.press("Control+Shift+U");
    await card(page).waitFor({ state: "detached" });
    assert.deepEqual(await answers(page), [["prompt-1", "deny", "hostPort"]]);
    await page.waitForFunction(() => document.activeElement.matches(".xterm-helper-textarea"));
  }));

test("from a terminal the answering keys show the question first, also with the inspector away", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page);
    await page.keyboard.press("Control+Shift+I");
    assert.equal(await card(page).count(), 0);
    await page.keyboard.press("Control+Shift+Y");
    await later(page, 100);
    assert.deepEqual(await answers(page), []);
    assert.match(await focused(page), /^curl wants to reach/);
    await later(page);
    await page.keyboard.press("Control+Shift+Y");
    assert.equal((await answers(page)).length, 1);
  }));

test("answered by keys, the next question has them; after the last, the terminal", () =>
  asking(async (page) => {
    await attempt(page);
    await attempt(page, { host: "second.example.com" });
    await page.keyboard.press("Control+Shift+J");
    await later(page);
    await page.keyboard.press("Control+Shift+U");
    await page.waitForFunction(() => document.activeElement.textContent.includes("second.example.com"));
    await later(page);
    await page.keyboard.press("Control+Shift+U");
    await page.waitForFunction(() => document.activeElement.matches(".xterm-helper-textarea"));
    assert.equal((await answers(page)).length, 2);
  }));

test("at zero the attempt is denied, nothing is stored, and the question can still be answered", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page, 59_000);
    assert.match(await card(page).innerText(), /Denied in 1 s/);
    await later(page, 1_500);
    await page.getByText("Missed 1", { exact: false }).first().waitFor();
    assert.deepEqual(await outcome(page), ["files.example.com:443", "refused", "timeout"]);
    assert.equal(await page.getByTestId("pane-pending").count(), 0);
    assert.deepEqual(await page.evaluate(async () => (await window.fake.snapshot()).rules), []);
    await page.getByTestId("prompt-row").click();
    await later(page);
    assert.match(await card(page).innerText(), /An answer now holds for the next attempt/);
    await card(page).getByRole("button", { name: "Allow the next one" }).click();
    await card(page).waitFor({ state: "detached" });
    await attempt(page);
    assert.deepEqual((await outcome(page)).slice(0, 2), ["files.example.com:443", "open"]);
    // It held for that one only.
    await attempt(page);
    await card(page).waitFor();
  }));

test("the countdown stops while somebody is at the card, and goes on when the card is left", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page, 20_000);
    await page.keyboard.press("Control+Shift+J");
    await later(page, 50);
    await page.getByText("The countdown is stopped while you are here.").waitFor();
    await later(page, 600_000);
    assert.equal(await card(page).count(), 1);
    assert.deepEqual(await calls(page, "holdPrompt"), [["prompt-1"]]);
    await page.locator(".xterm-screen").first().click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "releasePrompt"));
    await later(page, 300);
    assert.match(await card(page).innerText(), /Denied in (39|40) s/);
    await later(page, 41_000);
    await page.getByText("Missed 1", { exact: false }).first().waitFor();
  }));

test("a pointer on the card stops it too, and one that rests where it appears does not", () =>
  asking(async (page) => {
    await attempt(page);
    const box = await card(page).boundingBox();
    await later(page);
    await button(page, "deny").click();
    await card(page).waitFor({ state: "detached" });
    await page.mouse.move(box.x + 40, box.y + 40);
    const before = (await calls(page, "holdPrompt")).length;
    await attempt(page, { host: "second.example.com" });
    await later(page, 2_000);
    assert.equal((await calls(page, "holdPrompt")).length, before);
    await page.mouse.move(box.x + 50, box.y + 60);
    await page.getByText("The countdown is stopped while you are here.").waitFor();
    await page.mouse.move(400, 400);
    await page.getByText(/Denied in \d+ s/).waitFor();
  }));

test("300 attempts at one host are one card, and do not put its answers off", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page);
    await page.evaluate((process) => {
      for (let at = 1; at < 300; at++) {
        window.fake.network.attempt({ session: "a", host: "files.example.com", process });
      }
    }, curl);
    await card(page).getByText("300 attempts wait").waitFor();
    assert.equal(await page.locator("[data-testid=prompt-card], [data-testid=prompt-row]").count(), 1);
    await button(page, "allowOnce").click();
    await card(page).waitFor({ state: "detached" });
    const passed = await page.evaluate(async () => {
      const found = await window.fake.activity({
        ...window.wholeHistory,
        target: "files.example.com",
        limit: 1000,
      });
      return found.rows.filter((row) => row.outcome === "open").length;
    });
    assert.equal(passed, 300);
  }));

test("a flood of hosts is a few cards and one number, which come up as they are answered", () =>
  asking(async (page) => {
    await page.evaluate((process) => {
      for (let at = 0; at < 200; at++) {
        window.fake.network.attempt({ session: "a", host: `h${at}.example.com`, process });
      }
    }, curl);
    await later(page);
    assert.match(await page.getByTestId("prompt-folded").innerText(), /192 more hosts in sh/);
    assert.match(await page.getByTestId("needs-you").innerText(), /Needs you\s*200/i);
    assert.equal(await page.locator("[data-testid=prompt-card], [data-testid=prompt-row]").count(), 8);
    await button(page, "deny").click();
    await page.getByText("191 more hosts").waitFor();
  }));

test("a lasting answer can be undone, in words", () =>
  asking(async (page) => {
    await attempt(page);
    await later(page);
    await button(page, "allowSession").click();
    const strip = page.getByTestId("done-strip");
    assert.match(await strip.innerText(), /files\.example\.com:443 may be reached by sh, until it ends\./);
    await strip.getByRole("button", { name: /^Undo/ }).click();
    await strip.waitFor({ state: "detached" });
    assert.deepEqual(await page.evaluate(async () => (await window.fake.snapshot()).rules), []);
    await attempt(page);
    await card(page).waitFor();
  }));

test("a question answered elsewhere goes, and the terminal gets the keys that its card had", () =>
  asking(async (page) => {
    await attempt(page);
    await page.keyboard.press("Control+Shift+J");
    await later(page, 50);
    await page.evaluate(() => window.fake.network.answer("prompt-1", "deny", "hostPort"));
    await card(page).waitFor({ state: "detached" });
    await later(page, 50);
    await page.waitForFunction(() => document.activeElement.matches(".xterm-helper-textarea"));
  }));

test("names that lie are drawn as they are", () =>
  withWindow("prompt-hostile", { now: NOON }, async (page) => {
    const text = await card(page).innerText();
    assert.match(text, /^curl\\u\{202e\}gpj wants to reach\s+xn--pple-43d\.com:443/);
    assert.match(text, /reads as \\u\{430\}pple\.com:443/);
    assert.match(text, /Mixes Latin and Cyrillic letters in one word/);
    assert.deepEqual(await card(page).locator("mark").allInnerTexts(), ["\\u{430}"]);
    assert.match(text, /curl\\e\[2J/);
    assert.match(text, /ba\\u\{200b\}sh ‹ make/);
    const hidden = await page.evaluate(() =>
      /[\u200b\u202e\u2066\u001b]/.test(document.querySelector("aside.inspector").innerText),
    );
    assert.equal(hidden, false);
    await picture(page, "prompt-hostile-names");
  }));

for (const [setting, told] of [
  [true, 1],
  [false, 0],
]) {
  test(`while the window is not looked at, the desktop is told: ${setting}`, () =>
    asking(async (page) => {
      await page.evaluate((notifyPrompts) => {
        const { settings } = window.fake.world.snapshot;
        window.fake.tell([{ type: "settings", settings: { ...settings, notifyPrompts } }]);
      }, setting);
      await attempt(page, { host: "seen.example.com" });
      assert.deepEqual(await calls(page, "notify"), []);
      await page.evaluate(() => Object.defineProperty(document, "hasFocus", { value: () => false }));
      await attempt(page);
      await attempt(page);
      const notes = await calls(page, "notify");
      assert.equal(notes.length, told);
      if (told === 1) assert.equal(notes[0][0], "curl wants to reach files.example.com:443");
    }));
}

test("a flood is told to the desktop in few words", () =>
  asking(async (page) => {
    await page.evaluate(() => Object.defineProperty(document, "hasFocus", { value: () => false }));
    for (let at = 0; at < 20; at++) await attempt(page, { host: `h${at}.example.com` });
    const titles = (await calls(page, "notify")).map(([title]) => title);
    assert.equal(titles.length, 4);
    assert.match(titles[3], /questions wait for you/);
  }));

test("the pane's count and the sidebar's question lead to the card", () =>
  asking(async (page) => {
    await attempt(page);
    await attempt(page, { host: "second.example.com" });
    await later(page);
    await page
      .getByTestId("needs-you")
      .getByRole("button", { name: /second/ })
      .click();
    await later(page, 50);
    assert.match(await focused(page), /second\.example\.com/);
    await page.keyboard.press("Control+Shift+I");
    await page.getByTestId("pane-pending").click();
    await later(page, 50);
    assert.match(await focused(page), /files\.example\.com/);
  }));

for (const [code, told] of [
  ["ANSWER_TOO_EARLY", 0],
  ["PROMPT_GONE", 0],
  ["STORE_UNWRITABLE", 1],
]) {
  test(`an answer that the engine does not take, ${code}, leaves the card, and is told: ${told === 1}`, () =>
    asking(async (page) => {
      await attempt(page);
      await later(page);
      await page.evaluate((wanted) => {
        window.fake.network.answer = () => {
          throw { code: wanted, message: "the rule cannot be kept", causes: [], fix: null };
        };
      }, code);
      await button(page, "allowSession").click();
      await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "answerPrompt"));
      await later(page, 50);
      assert.equal(await card(page).count(), 1);
      assert.equal(await page.locator("[data-code]").count(), told);
    }));
}
