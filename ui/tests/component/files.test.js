// Refused files and programs: what stands in the feed, and how a folder is approved.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOON, assertAccessible, calls, clipboard, useBrowser, withWindow } from "./support.js";

useBrowser();

const HOME = "/home/mira";
const SHOP = `${HOME}/code/shop`;

async function at(tab, scenario, look) {
  await withWindow(scenario, { now: NOON }, async (page) => {
    await page.getByRole("tab", { name: tab }).click();
    await look(page);
  });
}

const feed = (scenario, look) =>
  at("Activity", scenario, async (page) => {
    await rows(page).first().waitFor();
    await look(page);
  });
const rows = (page) => page.getByRole("listbox", { name: "Activity, newest first" }).getByRole("option");
const row = (page, words) => rows(page).filter({ hasText: words });
const kind = (page, name) => page.getByRole("button", { name, exact: true });
const detail = (page) => page.getByTestId("activity-detail");
const counted = (page, words) =>
  page.getByTestId("activity-count").getByText(words, { exact: true }).waitFor();
const flat = async (locator) => (await locator.innerText()).replace(/\s+/g, " ");

// REQ UI-5
test("a refused file or program says what was tried, by whom, by which rule, and how often", () =>
  feed("files", async (page) => {
    assert.match(
      await flat(rows(page).first()),
      /✕ ?refused ~\/code\/shop\/\.env node · create · filename rule \.env/,
    );
    assert.match(await flat(row(page, ".bin/vite")), /×4 sh · run · exec restriction · inferred/);
    assert.match(
      await flat(row(page, "other end g")),
      /~\/code\/shop\/\.git mv · rename, other end g · holds the protected/,
    );
    assert.match(await flat(row(page, "pre.key")), /ln · link, other end x\.txt · filename rule \*\.key/);
    assert.match(await flat(row(page, "1,204")), /a\\u\{a\}b\.key/);
  }));

test("one kind at a time: the network, files, programs", () =>
  feed("files", async (page) => {
    await counted(page, "8 rows");
    for (const [name, count, engine] of [
      ["Files", "5 rows", "files"],
      ["Programs", "2 rows", "exec"],
      ["Network", "1 row", "network"],
      ["All", "8 rows", null],
    ]) {
      await kind(page, name).click();
      await counted(page, count);
      assert.equal(await kind(page, name).getAttribute("aria-pressed"), "true");
      const [query] = (await calls(page, "activity")).at(-1);
      assert.equal(query.kind, engine);
    }
    await kind(page, "Programs").click();
    await page.evaluate(() => {
      const { network } = window.fake;
      const [template] = network.activity({ ...window.wholeHistory, kind: "files", limit: 1 }).rows;
      network.record([network.row({ ...template, target: "/new.key" })]);
    });
    await counted(page, "2 rows");
    await kind(page, "All").click();
    await rows(page).first().getByText("/new.key").waitFor();
  }));

test("a kind that nothing is of says so, and leads back", () =>
  feed("network-off", async (page) => {
    await kind(page, "Programs").click();
    await page.getByText("Nothing matches the filter.").waitFor();
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await rows(page).first().waitFor();
    assert.equal(await kind(page, "All").getAttribute("aria-pressed"), "true");
  }));

test("the detail holds the rule, the call and the other end, and copies the path", () =>
  feed("files", async (page) => {
    await row(page, "other end g").click();
    const text = await detail(page).innerText();
    for (const words of [
      /\.git\/hooks is protected, so no folder that holds it can be moved, removed or replaced\./,
      /holds the protected path \/home\/mira\/code\/shop\/\.git\/hooks/,
      /rename, other end g/,
      /renameat2 EACCES/,
      /seen where it was decided/,
    ]) {
      assert.match(text, words);
    }
    await detail(page).getByRole("button", { name: "Copy path" }).click();
    assert.equal(await clipboard(page), `${SHOP}/.git`);
    assert.equal(await page.getByRole("button", { name: /^Approve running/ }).count(), 0);
    await row(page, "1,204").click();
    await detail(page)
      .getByText(/The path is no plain text/)
      .waitFor();
    await row(page, ".bin/vite").click();
    await detail(page)
      .getByText(/inferred: the guard foresaw/)
      .waitFor();
  }));

// REQ UI-7
test("a program's folder is approved for the session, and its restart is one press away", () =>
  feed("files-none", async (page) => {
    await row(page, ".bin/vite").click();
    await page.getByRole("button", { name: /^Approve running/ }).click();
    const form = page.getByTestId("approve-folder");
    const text = await form.innerText();
    for (const words of [
      /~\/code\/shop\/node_modules\/\.bin\s+its own folder/,
      /~\/code\/shop\/node_modules\n/,
      /~\/code\/shop\s+the whole workspace/,
      /Whatever the session writes in ~\/code\/shop\/node_modules\/\.bin can then be run by it/,
      /holds from the next start on/,
    ]) {
      assert.match(text, words);
    }
    await assertAccessible(page);
    await form.getByRole("radio", { name: /node_modules$/ }).check();
    await form.getByText(/writes in ~\/code\/shop\/node_modules can then/).waitFor();
    await form.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByTestId("approved").waitFor();
    assert.deepEqual(await calls(page, "addGrant"), [
      [{ kind: "exec", what: `${SHOP}/node_modules`, sessionId: "a", workspace: null }],
    ]);
    await page.getByTestId("approved").getByRole("button", { name: "Restart sh" }).click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "restart"));
    await page.getByRole("tab", { name: "Policy" }).click();
    const grant = page.getByTestId("exec-grant");
    assert.match(await flat(grant), /~\/code\/shop\/node_modules Revoke in force · for this session/);
    assert.equal(await page.getByTestId("exec-waits").count(), 0);
  }));

test("or for the workspace, which is all that is left once the session has ended", () =>
  feed("files-ended", async (page) => {
    await row(page, ".bin/vite").click();
    await page.getByRole("button", { name: /^Approve running/ }).click();
    const form = page.getByTestId("approve-folder");
    assert.ok(await form.getByRole("radio", { name: /until it ends/ }).isDisabled());
    await form.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByTestId("approved").waitFor();
    assert.deepEqual(await calls(page, "addGrant"), [
      [{ kind: "exec", what: `${SHOP}/node_modules/.bin`, sessionId: null, workspace: SHOP }],
    ]);
    assert.equal(await page.getByRole("button", { name: /^Restart sh/ }).count(), 0);
  }));

test("what makes no sense is refused with its reason, and can be undone when it was made", () =>
  at("Policy", "files-none", async (page) => {
    const field = page.getByLabel("Folder whose programs may run");
    await field.fill("~");
    await page.keyboard.press("Enter");
    await page.getByText(/is too wide to be approved: it holds your whole home folder/).waitFor();
    assert.equal(await page.getByTestId("exec-grant").count(), 0);
    await field.fill("~/code/shop/target");
    await page.keyboard.press("Enter");
    assert.match(
      await flat(page.getByTestId("exec-grant")),
      /~\/code\/shop\/target Revoke from the next start/,
    );
    await page.getByTestId("exec-waits").getByRole("button", { name: "Restart" }).waitFor();
    await page.getByRole("button", { name: /^Undo/ }).first().click();
    await page.getByTestId("exec-grant").waitFor({ state: "detached" });
  }));

test("the policy lists approved folders as they stand, and a revoked one until the restart", () =>
  at("Policy", "files", async (page) => {
    const grants = page.getByTestId("exec-grant");
    await grants.nth(2).waitFor();
    assert.match(
      await page.getByLabel("Enforcement").innerText(),
      /Exec restriction\s+in part[^]*Interpreters/,
    );
    // What does not run as a program runs all the same as a script, and that is said beside it.
    assert.match(
      await flat(page.getByTestId("exec-policy")),
      /does not run, but in the folders below\. An interpreter that may run, such as a shell or Python, still runs scripts from there, and the dynamic loader, called by its name, programs\./,
    );
    assert.match(await flat(grants.nth(0)), /node_modules\/\.bin Revoke in force · for the workspace/);
    assert.match(await flat(grants.nth(1)), /target Revoke from the next start · for this session/);
    assert.match(
      await flat(grants.nth(2)),
      /out Revoke not in force · for the workspace ✕ There is no folder/,
    );
    await grants
      .nth(0)
      .getByRole("button", { name: /^Revoke/ })
      .click();
    await grants
      .nth(0)
      .getByText(/revoked, holds until the session ends/)
      .waitFor();
    assert.equal(await grants.nth(0).getByRole("button").count(), 0);
    await page.getByTestId("exec-waits").getByRole("button", { name: "Restart" }).click();
    await page.waitForFunction(() => document.querySelectorAll("[data-testid=exec-grant]").length === 2);
  }));

test("approved folders are no ports: they stand under Policy alone", () =>
  at("Network", "files", async (page) => {
    await page.getByTestId("grants").waitFor();
    assert.equal(await page.getByTestId("grants").getByText("node_modules").count(), 0);
  }));

test("without the restriction nothing is offered", () =>
  at("Policy", "one", async (page) => {
    await page.getByText(/Programs run wherever they lie\./).waitFor();
    assert.equal(await page.getByLabel("Folder whose programs may run").count(), 0);
  }));

test("an empty feed says what is refused unseen, and more of a session that reports none", () =>
  at("Activity", "network-blind", async (page) => {
    const text = await flat(page.getByTestId("activity-empty"));
    assert.match(text, /What Kotak refuses of the network stands here/);
    assert.match(text, /Reads of what a sandbox hides are not seen\./);
    assert.match(text, /Of this session, refused files and programs are not seen\./);
  }));

test("and not of one that does", () =>
  at("Activity", "network-empty", async (page) => {
    const text = await flat(page.getByTestId("activity-empty"));
    assert.match(text, /Reads of what a sandbox hides are not seen\./);
    assert.match(text, /What Kotak refuses of the network, of files and of programs stands here/);
    assert.equal(await page.getByTestId("files-unseen").count(), 0);
  }));
