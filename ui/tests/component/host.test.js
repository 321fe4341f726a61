// The host report.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, clipboard, dialog, focused, style, token, useBrowser, withWindow } from "./support.js";

useBrowser();

async function withReport(scenario, look) {
  await withWindow(scenario, {}, async (page) => {
    await page.getByTestId("status-verdict").click();
    const report = dialog(page, "This host");
    await report.waitFor();
    await look(page, report);
  });
}

const rowOf = (report, name) => report.getByRole("row", { name: new RegExp(`^${name}`) });

test("a click on the verdict opens the report, which begins with the same verdict", () =>
  withReport("host-usual", async (page, report) => {
    const text = await rowOf(report, "Verdict").innerText();
    assert.match(text, /agent sandbox ON/);
    assert.match(text, /bubblewrap 0\.8\.0, namespace isolation, no kernel boundary/);
    assert.match(await page.getByTestId("status-verdict").innerText(), /agent sandbox ON/);
  }));

for (const [scenario, verdict] of [
  ["host-bare", "no OS-native agent sandbox on this host"],
  ["host-disabled", "agent sandbox DISABLED by --sandbox off"],
]) {
  test(`the verdict is “${verdict}” in the report and in the status bar`, () =>
    withReport(scenario, async (page, report) => {
      const words = (text) => text.replace(/\s+/g, " ");
      assert.ok(words(await rowOf(report, "Verdict").innerText()).includes(verdict));
      const bar = words(await page.getByTestId("status-verdict").innerText());
      assert.ok(bar.includes(verdict), bar);
    }));
}

test("every row says what was found, what for, why not, and what to do", () =>
  withReport("host-bare", async (page, report) => {
    assert.match(await rowOf(report, "Landlock").innerText(), /found\s+ABI 7\s+Scopes for signals/);
    const socat = await rowOf(report, "socat").innerText();
    assert.match(socat, /missing\s+Socat is not on PATH\.\s+The documented bridge[^]*Install socat\./);
    assert.doesNotMatch(socat, /missing\s+missing/);
    assert.match(await rowOf(report, "KVM").innerText(), /in part\s+\/dev\/kvm opens/);
    assert.match(await rowOf(report, "microVM").innerText(), /not available\s+KVM is present/);
    assert.match(await rowOf(report, "native").innerText(), /not available\s+Bubblewrap and socat/);
    assert.match(await rowOf(report, "none").innerText(), /available/);
  }));

test("the copy button writes the exact command, from the keyboard too", () =>
  withReport("host-bare", async (page, report) => {
    const copy = report.getByRole("button", { name: "Copy command sudo apt-get install bubblewrap socat" });
    await copy.focus();
    await page.keyboard.press("Enter");
    await report.getByText("Copied").waitFor();
    assert.equal(await clipboard(page), "sudo apt-get install bubblewrap socat");
  }));

test("a clipboard that refuses is told beside the button", () =>
  withReport("host-bare", async (page, report) => {
    await page.evaluate(() => {
      window.fake.writeClipboard = () => Promise.reject(new Error("no clipboard"));
    });
    await report.getByRole("button", { name: "Copy command sudo apt-get install socat" }).click();
    await report.getByText("Not copied").waitFor();
  }));

test("the whole report can be copied", () =>
  withReport("host-usual", async (page, report) => {
    await report.getByRole("button", { name: "Copy report" }).click();
    await report.getByText("Report copied").waitFor();
    assert.match(await clipboard(page), /^agent sandbox ON[^]*Landlock: ok ABI 7/);
  }));

test("probing again shows its progress once, then the new verdict and for whom it holds", () =>
  withReport("host-bare", async (page, report) => {
    await page.evaluate(() => window.fake.hold());
    await report.getByRole("button", { name: "Probe again" }).click();
    const busy = report.getByRole("button", { name: "Probing…" });
    await busy.waitFor();
    assert.ok(await busy.isDisabled());
    assert.equal(await report.locator("[aria-busy=true]").count(), 1);
    await page.evaluate(() => window.fake.release());
    await report.getByText("Holds for sessions opened from now on").waitFor();
    assert.match(await rowOf(report, "Verdict").innerText(), /agent sandbox ON/);
    assert.match(await rowOf(report, "native").innerText(), /available/);
    assert.match(await page.getByTestId("status-verdict").innerText(), /agent sandbox ON/);
    assert.equal((await calls(page, "probeAgain")).length, 1);
  }));

test("what is missing is no refusal: nothing in the report is red, and amber is only on the none badge", () =>
  withReport("host-bare", async (page, report) => {
    const coloured = (colour) =>
      report.evaluate(
        (root, wanted) =>
          [...root.querySelectorAll("*")]
            .filter((element) => getComputedStyle(element).color === wanted)
            .map((element) => element.textContent),
        colour,
      );
    assert.deepEqual(await coloured(await token(page, "--deny")), []);
    assert.deepEqual(await coloured(await token(page, "--none")), ["none"]);
    assert.deepEqual(await coloured(await token(page, "--native")), ["native"]);
    assert.deepEqual(await coloured(await token(page, "--microvm")), ["microVM"]);
  }));

test("numbers stand under one another", () =>
  withReport("host-usual", async (_page, report) => {
    assert.equal(await style(report, "font-variant-numeric"), "tabular-nums");
  }));

test("Done has the focus; it and Escape close the report", async () => {
  for (const key of ["Enter", "Escape"]) {
    await withReport("host-usual", async (page, report) => {
      assert.equal(await focused(page), "Done");
      await page.keyboard.press(key);
      await report.waitFor({ state: "detached" });
    });
  }
});

test("a platform inside WSL and a container says both", () =>
  withReport("host-wsl", async (_page, report) => {
    assert.match(await rowOf(report, "Platform").innerText(), /WSL 2 · inside docker/);
  }));
