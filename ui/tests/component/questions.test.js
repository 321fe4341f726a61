// Questions asked before something that cannot be taken back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, clipboard, dialog, focused, useBrowser, withWindow } from "./support.js";

useBrowser();

/** Asks through the shared questions and keeps the answer in `window.answer`. */
async function ask(page, kind, ...args) {
  await page.evaluate(
    ([name, given]) => {
      window.answer = undefined;
      void window.ask[name](...given).then((yes) => {
        window.answer = yes;
      });
    },
    [kind, args],
  );
}

async function answered(page) {
  await page.waitForFunction(() => window.answer !== undefined);
  return page.evaluate(() => window.answer);
}

const terminal = async (page) => {
  await page.locator(".xterm-rows").waitFor();
  await page.locator(".xterm-helper-textarea").focus();
};

test("closing a pane with a running program asks, lists the programs, and ends them on yes", () =>
  withWindow("one", {}, async (page) => {
    await terminal(page);
    await page.keyboard.press("Control+Shift+W");
    const question = dialog(page, "Close bash?");
    await question.waitFor();
    assert.match(await question.innerText(), /3 processes are running and will be ended/);
    await question.getByText("npm run build").waitFor();
    await question.getByText("\\e[2J", { exact: false }).waitFor();
    assert.equal(await focused(page), "Cancel");
    assert.deepEqual(await calls(page, "close"), []);
    await question.getByRole("button", { name: "End and close" }).click();
    await question.waitFor({ state: "detached" });
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "dismiss"));
    assert.deepEqual(await calls(page, "close"), [["a"]]);
    assert.equal(await page.getByTestId("pane").count(), 0);
  }));

test("Enter, Escape and a click outside keep the pane", async () => {
  for (const leave of [
    (page) => page.keyboard.press("Enter"),
    (page) => page.keyboard.press("Escape"),
    (page) => page.mouse.click(20, 700),
  ]) {
    await withWindow("one", {}, async (page) => {
      await terminal(page);
      await page.keyboard.press("Control+Shift+W");
      const question = dialog(page, "Close bash?");
      await question.waitFor();
      await leave(page);
      await question.waitFor({ state: "detached" });
      assert.deepEqual(await calls(page, "close"), []);
      assert.equal(await page.getByTestId("pane").count(), 1);
    });
  }
});

test("a shell alone at its prompt closes without a question", () =>
  withWindow("idle", {}, async (page) => {
    await terminal(page);
    await page.keyboard.press("Control+Shift+W");
    await page.getByTestId("pane").waitFor({ state: "detached" });
    assert.deepEqual(await calls(page, "close"), [["a"]]);
  }));

test("restarting asks with its own words", () =>
  withWindow("one", {}, async (page) => {
    await terminal(page);
    await page.keyboard.press("Control+Shift+R");
    const question = dialog(page, "Restart bash?");
    await question.waitFor();
    await question.getByRole("button", { name: "End and restart" }).click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "restart"));
  }));

test("pasting more than one line asks, and only yes types it", async () => {
  for (const [button, typed] of [
    ["Paste", true],
    ["Cancel", false],
  ]) {
    await withWindow("paste", {}, async (page) => {
      await terminal(page);
      await page.keyboard.press("Control+Shift+V");
      const question = dialog(page, "Paste 2 lines?");
      await question.waitFor();
      await question.getByText("curl https://example.org/x.sh | sh").waitFor();
      assert.equal(await focused(page), "Cancel");
      assert.deepEqual(await calls(page, "writeInput"), []);
      await question.getByRole("button", { name: button }).click();
      await question.waitFor({ state: "detached" });
      if (typed)
        await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "writeInput"));
      assert.equal((await calls(page, "writeInput")).length > 0, typed);
    });
  }
});

test("what a paste hides is shown, and a long one is cut with a count", () =>
  withWindow("one", {}, async (page) => {
    await ask(page, "confirmPaste", `ls\u001b[201~\nrm\u202e\n${"echo\n".repeat(98)}`);
    const question = dialog(page, "Paste 100 lines?");
    await question.getByText("ls\\e[201~").waitFor();
    await question.getByText("rm\\u{202e}").waitFor();
    await question.getByText("Hidden characters are shown as escapes.").waitFor();
    await question.getByText("and 60 more lines").waitFor();
    await question.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await answered(page), false);
  }));

test("a link shows its whole address with the host apart, and opens on yes only", () =>
  withWindow("one", {}, async (page) => {
    const url = `https://docs.example.org:8443/${"deep/".repeat(40)}?a=b#c`;
    await ask(page, "confirmLink", url);
    const question = dialog(page, "Open this link?");
    await question.waitFor();
    const address = question.getByRole("group", { name: "Full address" });
    assert.equal(await address.innerText(), url);
    assert.equal(await address.locator("b").innerText(), "docs.example.org:8443");
    assert.equal(await focused(page), "Cancel");
    await question.getByRole("button", { name: "Copy address" }).click();
    await question.getByText("Copied").waitFor();
    assert.equal(await clipboard(page), url);
    await question.getByRole("button", { name: "Open" }).click();
    assert.equal(await answered(page), true);
  }));

for (const url of ["file:///etc/passwd", "vscode://file/etc/passwd", "javascript:alert(1)"]) {
  test(`${url} cannot be opened`, () =>
    withWindow("one", {}, async (page) => {
      await ask(page, "confirmLink", url);
      const question = dialog(page, "This link is not opened");
      await question.getByText("Only http and https links are opened", { exact: false }).waitFor();
      assert.equal(await question.getByRole("button", { name: "Open" }).count(), 0);
      await page.keyboard.press("Enter");
      assert.equal(await answered(page), false);
    }));
}

test("an address that misleads comes with warnings", () =>
  withWindow("one", {}, async (page) => {
    await ask(page, "confirmLink", "http://bank.example@аpple.com/");
    const question = dialog(page, "Open this link?");
    assert.equal(await question.locator("b").innerText(), "xn--pple-43d.com");
    assert.equal(await question.getByRole("listitem").count(), 3);
    await page.keyboard.press("Escape");
    assert.equal(await answered(page), false);
  }));

test("the window asks before it closes with sessions alive", async () => {
  for (const [button, method] of [
    ["End everything and quit", "quit"],
    ["Keep working", "keepOpen"],
  ]) {
    await withWindow("splits", {}, async (page) => {
      await page.evaluate(() => window.fake.tell([{ type: "closeRequested" }, { type: "closeRequested" }]));
      const question = dialog(page, "Quit Kotak?");
      await question.waitFor();
      assert.match(await question.innerText(), /3 sessions are open/);
      assert.equal(await focused(page), "Keep working");
      await question.getByRole("button", { name: button }).click();
      await question.waitFor({ state: "detached" });
      await page.waitForFunction(
        (wanted) => window.fake.calls.some((call) => call.method === wanted),
        method,
      );
      const other = method === "quit" ? "keepOpen" : "quit";
      assert.deepEqual(await calls(page, other), []);
    });
  }
});

test("Tab stays inside a question, both ways", () =>
  withWindow("one", {}, async (page) => {
    await ask(page, "confirmClose", [{ pid: 1, command: "make", foreground: true }], { what: "sh" });
    await dialog(page, "Close sh?").waitFor();
    const seen = [];
    for (let step = 0; step < 4; step++) {
      seen.push(await focused(page));
      await page.keyboard.press("Tab");
    }
    assert.deepEqual(seen, ["Cancel", "End and close", "Running processes", "Cancel"]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Shift+Tab");
    assert.equal(await focused(page), "Running processes");
  }));
