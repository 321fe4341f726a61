// The terminal in its pane: input, output, paste, links, titles, find, life.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { useBrowser, withWindow } from "./support.js";

useBrowser();

const rows = (page) => page.locator(".xterm-rows").first();
const drawn = (page, text) => rows(page).filter({ hasText: text }).waitFor();
const print = (page, text, id = "a") =>
  page.evaluate(([id, text]) => window.fake.print(id, text), [id, text]);
const calls = (page, method) =>
  page.evaluate(
    (method) => window.fake.calls.filter((call) => call.method === method).map((call) => call.args),
    method,
  );
/** Everything that was sent to a session's program, as text. */
const sent = async (page) =>
  (await calls(page, "writeInput")).map(([, bytes]) => Buffer.from(bytes).toString()).join("");
const until = async (page, what, predicate) => {
  for (let tries = 0; tries < 1200; tries += 1) {
    const value = await what();
    if (predicate(value)) return value;
    await page.waitForTimeout(25);
  }
  assert.fail(`never came: ${JSON.stringify(await what())}`);
};

describe("input", () => {
  it("reaches the program in the order it was typed, plain Ctrl keys too", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.keyboard.type("echo häl");
      await page.keyboard.press("Control+c");
      await page.keyboard.press("Control+p");
      await page.keyboard.press("Enter");
      await until(
        page,
        () => sent(page),
        (text) => text === "echo häl\u0003\u0010\r",
      );
      await drawn(page, "echo häl");
    }));

  it("goes to the pane in focus, which the keys move", () =>
    withWindow("splits-down", {}, async (page) => {
      await drawn(page, "$");
      const current = () =>
        page.locator('[data-testid="session-row"][aria-current]').getAttribute("data-session-id");
      assert.equal(await current(), "c");
      await page.keyboard.press("Control+Shift+ArrowRight");
      assert.equal(await current(), "a");
      await page.keyboard.press("Control+Shift+ArrowLeft");
      await page.keyboard.press("Control+Shift+ArrowLeft");
      assert.equal(await current(), "b");
      await page.keyboard.type("x");
      await until(
        page,
        () => calls(page, "writeInput"),
        (all) => all.length === 1 && all[0][0] === "b",
      );
    }));
});

describe("output", () => {
  it("of a flood is drawn to the last byte, and the checksum says so", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      const expected = await page.evaluate(() => {
        let text = "";
        for (let n = 0; n < 120_000; n += 1) text += `line ${n} of a flood\r\n`;
        window.fake.print("a", text);
        return new TextEncoder().encode(text).length + 2;
      });
      await page.getByRole("tab", { name: "About" }).click();
      const check = page.getByTestId("output-check");
      await until(
        page,
        async () => Number(await check.getAttribute("data-bytes")),
        (bytes) => bytes === expected,
      );
      const crc = await page.evaluate(async () => {
        const { bytes } = await window.fake.readOutput("a", 0);
        let value = -1;
        for (const byte of bytes) {
          value ^= byte;
          for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
        }
        return (~value >>> 0).toString(16).padStart(8, "0");
      });
      assert.equal(await check.getAttribute("data-crc"), crc);
      await drawn(page, "line 119999 of a flood");
    }));

  it("that was there before the window is drawn but not answered again; what is new is answered", () =>
    withWindow("queries", {}, async (page) => {
      await drawn(page, "before");
      await print(page, "after\u001b[6n");
      await until(
        page,
        () => sent(page),
        (text) => text !== "",
      );
      assert.match(await sent(page), /^\u001b\[1;\d+R$/);
    }));

  it("has wide glyphs and grapheme clusters of two cells", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "\r漢👨‍👩‍👧‍👦é\u001b[6n");
      await until(
        page,
        () => sent(page),
        (text) => text === "\u001b[1;6R",
      );
    }));

  it("cannot set the clipboard, nor ask for it", () =>
    withWindow("paste", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "\u001b]52;c;aGVsbG8=\u0007\u001b]52;c;?\u0007done");
      await drawn(page, "done");
      assert.deepEqual(await calls(page, "writeClipboard"), []);
      assert.deepEqual(await calls(page, "readClipboard"), []);
      assert.equal(await sent(page), "");
    }));

  it("has a title that is text beside the badge, with hidden characters shown", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "\u001b]0;microVM \u202e evil\u0007");
      const title = page.locator('[title^="Title set by the program"]');
      await until(
        page,
        () => title.textContent(),
        (text) => text.includes("microVM") && text.includes("202e"),
      );
      assert.equal(await page.getByTestId("pane-badge").first().getAttribute("data-backend"), "native");
      assert.equal(await page.locator('[data-testid="pane"] .badge.microvm').count(), 0);
    }));
});

describe("a link", () => {
  it("of http or https is opened after its full address was shown", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "\r\u001b]8;;https://xn--80ak6aa92e.com/a?b\u001b\\press here\u001b]8;;\u001b\\");
      await drawn(page, "press here");
      const at = await page.getByTestId("terminal").boundingBox();
      const press = async () => {
        await page.mouse.move(at.x + 20, at.y + 9);
        await page.waitForTimeout(100);
        await page.mouse.click(at.x + 24, at.y + 9);
      };
      await press();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("xn--80ak6aa92e.com").first().waitFor();
      await page.keyboard.press("Escape");
      assert.deepEqual(await calls(page, "openLink"), []);
      await press();
      await dialog.getByRole("button", { name: "Open" }).click();
      await until(
        page,
        () => calls(page, "openLink"),
        (all) => all.length === 1,
      );
      assert.deepEqual(await calls(page, "openLink"), [["https://xn--80ak6aa92e.com/a?b"]]);
    }));

  it("of another kind is never opened", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "\r\u001b]8;;file:///etc/passwd\u001b\\press here\u001b]8;;\u001b\\");
      await drawn(page, "press here");
      const at = await page.getByTestId("terminal").boundingBox();
      await page.mouse.move(at.x + 20, at.y + 9);
      await page.waitForTimeout(100);
      await page.mouse.click(at.x + 24, at.y + 9);
      await page.waitForTimeout(100);
      assert.equal(await page.getByRole("button", { name: "Open", exact: true }).count(), 0);
      assert.deepEqual(await calls(page, "openLink"), []);
    }));
});

describe("copy and paste", () => {
  it("of several lines asks first; a no sends nothing, a yes sends Return for each line", () =>
    withWindow("paste", {}, async (page) => {
      await drawn(page, "$");
      await page.keyboard.press("Control+Shift+V");
      const dialog = page.getByRole("dialog");
      await dialog.getByText("curl https://example.org/x.sh | sh").waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      assert.equal(await sent(page), "");
      await page.keyboard.press("Control+Shift+V");
      await dialog.getByRole("button", { name: "Paste" }).click();
      await until(
        page,
        () => sent(page),
        (text) => text === "cd /tmp\rcurl https://example.org/x.sh | sh\r",
      );
    }));

  it("is bracketed where the program asks for it, and cannot press keys", () =>
    withWindow("paste", {}, async (page) => {
      await page.evaluate(() => (window.fake.clipboard = "a\u001b[201~b"));
      await print(page, "\u001b[?2004hready");
      await drawn(page, "ready");
      await page.keyboard.press("Control+Shift+V");
      await until(
        page,
        () => sent(page),
        (text) => text === "\u001b[200~a␛[201~b\u001b[201~",
      );
    }));

  it("by the system's own paste takes the same way", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.evaluate(() => {
        const data = new DataTransfer();
        data.setData("text/plain", "one\ntwo\u001b[A");
        const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
        document.querySelector(".xterm-helper-textarea").dispatchEvent(event);
      });
      await page.getByRole("dialog").getByRole("button", { name: "Paste" }).click();
      await until(
        page,
        () => sent(page),
        (text) => text === "one\rtwo␛[A",
      );
    }));

  it("copies what is selected, and nothing else", () =>
    withWindow("one", {}, async (page) => {
      await drawn(page, "412 modules");
      await page.keyboard.press("Control+Shift+C");
      assert.deepEqual(await calls(page, "writeClipboard"), []);
      const at = await page.getByText("412 modules").first().boundingBox();
      await page.mouse.dblclick(at.x + 60, at.y + 5);
      await page.keyboard.press("Control+Shift+C");
      await until(
        page,
        () => calls(page, "writeClipboard"),
        (all) => all.length === 1 && all[0][0].length > 0,
      );
      assert.equal(await sent(page), "");
    }));
});

describe("find", () => {
  it("counts, steps, heeds case and tells of a faulty expression", () =>
    withWindow("one", {}, async (page) => {
      await drawn(page, "412 modules");
      await page.keyboard.press("Control+Shift+F");
      const count = page.getByTestId("find-count");
      await page.getByTestId("find-input").fill("CODE");
      await until(
        page,
        () => count.textContent(),
        (text) => text === "1 of 3",
      );
      await page.keyboard.press("Enter");
      await until(
        page,
        () => count.textContent(),
        (text) => text === "2 of 3",
      );
      await page.keyboard.press("Shift+Enter");
      await until(
        page,
        () => count.textContent(),
        (text) => text === "1 of 3",
      );
      await page.getByRole("button", { name: "Match case" }).click();
      await until(
        page,
        () => count.textContent(),
        (text) => text === "No results",
      );
      await page.getByRole("button", { name: "Regular expression" }).click();
      await page.getByTestId("find-input").fill("(");
      await until(
        page,
        () => count.textContent(),
        (text) => text === "Not a regular expression",
      );
      await page.getByTestId("find-input").fill("4[12]+ mod");
      await until(
        page,
        () => count.textContent(),
        (text) => text === "1 of 1",
      );
      await page.keyboard.press("Escape");
      await page.keyboard.type("z");
      await until(
        page,
        () => sent(page),
        (text) => text === "z",
      );
    }));
});

describe("a pane", () => {
  it("with a running program asks before it closes", () =>
    withWindow("one", {}, async (page) => {
      await drawn(page, "412 modules");
      await page.keyboard.press("Control+Shift+W");
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      assert.deepEqual(await calls(page, "close"), []);
      await page.keyboard.press("Control+Shift+W");
      await dialog.getByRole("button").last().click();
      await page.getByText("Open a terminal, and know what it may do").waitFor();
      assert.deepEqual(await calls(page, "close"), [["a"]]);
      assert.deepEqual(await calls(page, "dismiss"), [["a"]]);
    }));

  it("out of view goes on taking output, and shows it when it comes into view", () =>
    withWindow("splits", {}, async (page) => {
      await drawn(page, "412 modules");
      await print(page, "while away\u001b[6n", "c");
      await until(
        page,
        () => calls(page, "writeInput"),
        (all) => all.some(([id]) => id === "c"),
      );
      await page.getByRole("navigation", { name: "Tabs" }).getByText("notes").click();
      await drawn(page, "while away");
      await page.keyboard.type("q");
      await until(
        page,
        () => calls(page, "writeInput"),
        (all) => all.at(-1)[0] === "c" && all.at(-1)[1][0] === 113,
      );
      await page.keyboard.press("Control+Shift+PageDown");
      await drawn(page, "412 modules");
    }));

  it("has the keys again after a press on an empty part of the window", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.mouse.click(100, 600);
      // The focus returns after the press, and a key pressed before that would go nowhere.
      await page.locator(".xterm-helper-textarea:focus").waitFor();
      await page.keyboard.type("k");
      await until(
        page,
        () => sent(page),
        (text) => text === "k",
      );
    }));

  it("with a shell at its prompt closes at once", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.keyboard.press("Control+Shift+W");
      await page.getByText("Open a terminal, and know what it may do").waitFor();
      assert.deepEqual(await calls(page, "close"), [["a"]]);
    }));

  it("can be split, resized by keys, and comes back as it was", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.keyboard.press("Control+Shift+D");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Enter");
      await page.getByTestId("pane").nth(1).waitFor();
      const divider = page.getByRole("separator");
      await divider.focus();
      await page.keyboard.press("ArrowRight");
      assert.equal(await divider.getAttribute("aria-valuenow"), "52");
      const layout = await until(
        page,
        async () => JSON.parse((await calls(page, "saveLayout")).at(-1)?.[0] ?? "{}"),
        (saved) => saved.tabs?.[0]?.root.ratio === 0.52,
      );
      assert.equal(layout.tabs[0].root.direction, "row");
      assert.equal(layout.tabs[0].root.first.session, "a");
    }));

  it("tells the program its size, and again when it changes", () =>
    withWindow("idle", {}, async (page) => {
      const sizes = async () => (await calls(page, "resize")).map(([, cols]) => cols);
      const [first] = await until(page, sizes, (all) => all.length === 1);
      await page.keyboard.press("Control+Shift+I");
      const all = await until(page, sizes, (each) => each.length > 1);
      assert.ok(all.at(-1) > first, `${all}`);
    }));

  it("is suspended and resumed", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await page.keyboard.press("Control+Shift+Z");
      await page.getByText("Nothing in this session runs until it is resumed.").waitFor();
      assert.equal(await page.getByTestId("session-row").getAttribute("data-phase"), "suspended");
      await page.getByRole("button", { name: "Resume" }).click();
      await page.getByText("Nothing in this session runs until it is resumed.").waitFor({ state: "hidden" });
      await page.keyboard.type("x");
      await until(
        page,
        () => sent(page),
        (text) => text === "x",
      );
    }));

  it("whose program has ended says how, and starts it again", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      await print(page, "old run");
      await page.evaluate(() => window.fake.end("a", 3));
      await page.getByTestId("exit-strip").getByText("exited 3").waitFor();
      await page.getByTestId("exit-strip").getByRole("button", { name: "Restart" }).click();
      await page.getByTestId("exit-strip").waitFor({ state: "hidden" });
      await until(
        page,
        () => rows(page).textContent(),
        (text) => text.includes("$") && !text.includes("old run"),
      );
      await page.keyboard.type("y");
      await until(
        page,
        () => sent(page),
        (text) => text === "y",
      );
    }));

  it("keeps its place when it is started again under a new id, whatever comes first", () =>
    withWindow("splits-down", {}, async (page) => {
      await drawn(page, "412 modules");
      const order = () =>
        page.getByTestId("pane").evaluateAll((all) => all.map((pane) => pane.dataset.sessionId));
      assert.deepEqual(await order(), ["a", "b", "c"]);
      await page.evaluate(() => {
        const old = window.fake.world.snapshot.sessions.find(({ id }) => id === "b");
        window.fake.restart = async () => {
          const fresh = { ...structuredClone(old), id: "z", startedAtMs: old.startedAtMs + 1 };
          window.fake.tell([{ type: "session", session: fresh }]);
          window.fake.tell([{ type: "sessionGone", id: "b" }]);
          window.fake.print("z", "fresh start");
          await new Promise((resolve) => setTimeout(resolve, 100));
          return fresh;
        };
      });
      await page
        .getByTestId("pane")
        .nth(1)
        .getByRole("button", { name: /Menu of/ })
        .click();
      await page.getByRole("menuitem", { name: /Restart/ }).click();
      await page.locator('[data-testid="pane"][data-session-id="z"]').waitFor();
      assert.deepEqual(await order(), ["a", "z", "c"]);
      await page.locator('[data-session-id="z"] .xterm-rows').filter({ hasText: "fresh start" }).waitFor();
    }));

  it("that failed shows why, with the fix, and no badge", () =>
    withWindow("phase-error", {}, async (page) => {
      const error = page.getByTestId("pane-error");
      await error.getByText("sudo apt-get install --reinstall bubblewrap").waitFor();
      assert.equal(await error.getAttribute("data-code"), "GUARD_NOT_CONFINED");
      assert.equal(await page.getByTestId("pane-badge").count(), 0);
      await error.getByRole("button", { name: /Copy/ }).click();
      await until(
        page,
        () => calls(page, "writeClipboard"),
        (all) => all.length === 1,
      );
    }));
});

describe("the window", () => {
  it("changes the size of text by keys, within bounds", () =>
    withWindow("idle", {}, async (page) => {
      await drawn(page, "$");
      const size = async () => (await calls(page, "setSettings")).at(-1)?.[0].fontSize;
      await page.keyboard.press("Control++");
      await until(page, size, (px) => px === 14);
      await page.keyboard.press("Control+0");
      await until(page, size, (px) => px === 13);
      for (let n = 0; n < 8; n += 1) await page.keyboard.press("Control+-");
      await until(page, size, (px) => px === 8);
      assert.equal(await sent(page), "");
    }));

  it("asks before it closes over sessions that run, and heeds either answer", () =>
    withWindow("one", {}, async (page) => {
      await drawn(page, "412 modules");
      const ask = () => page.evaluate(() => window.fake.tell([{ type: "closeRequested" }]));
      await ask();
      await page.getByRole("button", { name: "Keep working" }).click();
      await until(
        page,
        () => calls(page, "keepOpen"),
        (all) => all.length === 1,
      );
      assert.deepEqual(await calls(page, "quit"), []);
      await ask();
      await page.getByRole("button", { name: /End everything/ }).click();
      await until(
        page,
        () => calls(page, "quit"),
        (all) => all.length === 1,
      );
    }));

  it("shows a session that another part of the engine started, and drops one that is gone", () =>
    withWindow("one", {}, async (page) => {
      await drawn(page, "412 modules");
      await page.evaluate(() => window.fake.tell([{ type: "sessionGone", id: "a" }]));
      await page.getByText("Open a terminal, and know what it may do").waitFor();
      assert.equal(await page.getByTestId("session-row").count(), 0);
    }));

  it("keeps the inspector's tabs reachable by arrow keys", () =>
    withWindow("one", {}, async (page) => {
      await page.getByRole("tab", { name: "Policy" }).focus();
      await page.keyboard.press("ArrowRight");
      assert.equal(await page.getByRole("tab", { name: "About" }).getAttribute("aria-selected"), "true");
      await page.getByTestId("output-check").waitFor();
    }));
});
