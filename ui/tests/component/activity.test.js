// The activity feed: what was refused, to whom, why, and what would have let it pass.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOON, calls, clipboard, useBrowser, withWindow } from "./support.js";

useBrowser();

async function feed(scenario, look, options = {}) {
  await withWindow(scenario, { now: NOON, ...options }, async (page) => {
    await page.getByRole("tab", { name: "Activity" }).click();
    await page.getByTestId("activity-count").waitFor();
    await look(page);
  });
}

const list = (page) => page.getByRole("listbox", { name: "Activity, newest first" });
const rows = (page) => list(page).getByRole("option");
const filter = (page) => page.getByRole("searchbox", { name: "Filter the activity" });
const counted = (page, words) =>
  page.getByTestId("activity-count").getByText(words, { exact: true }).waitFor();
const settle = (page) => page.evaluate(() => new Promise((done) => setTimeout(done, 50)));
const tell = (page, part) =>
  page.evaluate((given) => {
    const { network } = window.fake;
    const at = Date.now();
    const base = {
      sessionId: "a",
      atMs: at,
      lastMs: at,
      outcome: "refused",
      action: "file-read-data",
      target: "/home/mira/.aws/credentials",
      unicode: null,
      why: "secret, unreadable",
      wayOut: null,
      count: 1,
      process: null,
      evidence: "observed",
      raw: null,
      connection: null,
    };
    network.record([given.id === undefined ? network.row({ ...base, ...given }) : { ...base, ...given }]);
  }, part);

test("a row answers what, who, when and why; newest first", () =>
  feed("network", async (page) => {
    const text = (await rows(page).first().innerText()).replace(/\s+/g, " ");
    assert.match(text, /12:04:11 ✕ ?refused files\.evil-cdn\.net:443 ×38 curl · not on the allowlist/);
    const second = (await rows(page).nth(1).innerText()).replace(/\s+/g, " ");
    assert.match(second, /~\/code\/shop\/\.env.* node · create · filename rule \.env/);
    const npm = rows(page).filter({ hasText: "registry.npmjs.org:443" }).first();
    assert.match(await npm.innerText(), /npm · package registries · 1\.6 MB/);
  }));

// REQ UI-5
test("what is refused stands there as it happens, and a row told again takes its own place", () =>
  feed("network", async (page) => {
    await tell(page, {});
    await rows(page).first().getByText("~/.aws/credentials").waitFor();
    const id = await rows(page).first().locator("[data-row]").getAttribute("data-row");
    const before = await page.getByTestId("activity-count").innerText();
    await tell(page, { id: Number(id), count: 17 });
    await rows(page).first().getByText("×17").waitFor();
    assert.equal(await page.getByTestId("activity-count").innerText(), before);
  }));

test("paused, what is new waits and is counted; resumed, it is let in", () =>
  feed("network", async (page) => {
    await page.getByRole("button", { name: "Pause" }).click();
    await tell(page, {});
    await tell(page, {});
    await page.getByRole("button", { name: "2 new" }).waitFor();
    assert.match(await rows(page).first().innerText(), /files\.evil-cdn\.net/);
    await page.getByRole("button", { name: "Resume" }).click();
    await rows(page).first().getByText("~/.aws/credentials").waitFor();
    assert.equal(await page.getByRole("button", { name: /new$/ }).count(), 0);
  }));

test("scrolled away from the front nothing moves; the count leads back", () =>
  feed("network", async (page) => {
    await list(page).evaluate((view) => (view.scrollTop = 480));
    await settle(page);
    const seen = () =>
      list(page).evaluate((view) => {
        const box = view.getBoundingClientRect();
        return document.elementFromPoint(box.left + 120, box.top + 30).closest("[data-row]").dataset.row;
      });
    const before = await seen();
    for (let at = 0; at < 3; at++) await tell(page, {});
    await page.getByRole("button", { name: "3 new" }).waitFor();
    assert.equal(await seen(), before);
    await page.getByRole("button", { name: "3 new" }).click();
    await rows(page).first().getByText("~/.aws/credentials").waitFor();
    assert.equal(await list(page).evaluate((view) => view.scrollTop), 0);
  }));

test("12,000 rows are a few elements, and the last one is reached", () =>
  feed("network-many", async (page) => {
    await counted(page, "500+ rows");
    assert.ok((await rows(page).count()) < 60);
    await list(page).focus();
    for (let at = 0; at < 40; at++) {
      await page.keyboard.press("End");
      await settle(page);
      if ((await page.getByTestId("activity-count").innerText()) === "12,000 rows") break;
    }
    await counted(page, "12,000 rows");
    await page.keyboard.press("End");
    await page.waitForFunction(() => document.querySelector("[role=option][aria-posinset='12000']") !== null);
    assert.ok((await rows(page).count()) < 60);
    const asked = await calls(page, "activity");
    assert.ok(asked.every(([query]) => query.limit <= 1_000));
    assert.equal(new Set(asked.map(([query]) => query.before)).size, asked.length);
  }));

test("10,000 rows told at ten a second are followed without falling behind", () =>
  feed("network-many", async (page) => {
    for (let batch = 0; batch < 10; batch++) {
      await page.evaluate((number) => {
        const { network } = window.fake;
        const [template] = network.activity({ ...window.wholeHistory, limit: 1 }).rows;
        const told = Array.from({ length: 1_000 }, (_, at) =>
          network.row({ ...template, target: `/flood/${number}/${at}` }),
        );
        network.record(told, 40);
      }, batch);
      await settle(page);
    }
    await rows(page).first().getByText("/flood/9/999").waitFor();
    await counted(page, "10,500+ rows");
    assert.match(
      await page.getByText(/too fast to show/).innerText(),
      /3,201 only counted · 400 too fast to show/,
    );
  }));

test("filter words narrow the feed, by field and freely", () =>
  feed("network", async (page) => {
    for (const [text, count] of [
      ["target:evil-cdn process:curl", /^\d+ rows$/],
      ["action:file-write-create", /^1 row$/],
      ["process:python3", /^1 row$/],
      ["metadata", /^1 row$/],
      ["session:claude", /^0 rows$/],
    ]) {
      await filter(page).fill(text);
      await page.getByTestId("activity-count").getByText(count).waitFor();
    }
    await filter(page).fill("nothing-like-it");
    await page.getByText("Nothing matches the filter.").waitFor();
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await rows(page).first().waitFor();
    const asked = (await calls(page, "activity")).map(([query]) => query);
    assert.ok(asked.some((query) => query.target === "evil-cdn" && query.process === "curl"));
  }));

test("a search in a long history says how far it went, and goes on when told", () =>
  feed("network-sparse", async (page) => {
    await filter(page).fill("needle");
    await page.getByRole("button", { name: "Search further back" }).waitFor();
    const before = (await calls(page, "activity")).length;
    for (let at = 0; at < 6 && (await rows(page).count()) === 0; at++) {
      await page.getByRole("button", { name: "Search further back" }).click();
      await settle(page);
    }
    await counted(page, "1 row");
    assert.ok((await calls(page, "activity")).length > before);
  }));

test("a word of a row narrows the feed to it; so does its menu, by keys", () =>
  feed("network", async (page) => {
    await rows(page).filter({ hasText: "169.254.169.254" }).getByText("python3").click();
    assert.equal(await filter(page).inputValue(), "process:python3");
    await counted(page, "1 row");
    await filter(page).fill("");
    await rows(page).nth(2).waitFor();
    await list(page).focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+F10");
    await page.getByRole("menuitem", { name: "Only this target" }).waitFor();
    await page.keyboard.press("Enter");
    assert.equal(await filter(page).inputValue(), "target:files.evil-cdn.net:443");
  }));

test("by target, each stands once with how often each way", () =>
  feed("network", async (page) => {
    await page.getByRole("button", { name: "By target" }).click();
    const groups = page.getByRole("listbox", { name: "Activity by target" }).getByRole("option");
    assert.match(
      (await groups.first().innerText()).replace(/\s+/g, " "),
      /files\.evil-cdn\.net:443.*150 refused/,
    );
    await groups.first().click();
    assert.equal(await filter(page).inputValue(), "target:files.evil-cdn.net:443");
    await list(page).waitFor();
  }));

test("the detail says who, by what chain, which rule, and what would let it pass", () =>
  feed("network", async (page) => {
    await rows(page).first().click();
    const detail = page.getByTestId("activity-detail");
    const text = await detail.innerText();
    for (const words of [
      /files\.evil-cdn\.net:443/,
      /Would pass with: A rule for files\.evil-cdn\.net:443 in this session\./,
      /38 times, 12:04:11 to 12:04:11/,
      /claude\s+└ make\s+└ bash\s+└ curl \(41\)/,
      /HTTP proxy, tunnel/,
      /network-outbound files\.evil-cdn\.net:443 pid=41 curl/,
      /seen where it was decided/,
      /Stores: files\.evil-cdn\.net:443 may be reached by sh until it ends/,
      /Stores: files\.evil-cdn\.net:443 may be reached by every session in ~\/code\/shop, from now on/,
    ]) {
      assert.match(text, words);
    }
    await detail.getByRole("button", { name: "Copy the raw line" }).click();
    assert.match(await clipboard(page), /pid=41/);
    await detail.getByRole("button", { name: "Allow for the session" }).click();
    await page.getByTestId("done-strip").waitFor();
    assert.deepEqual(await calls(page, "addRule"), [
      [{ pattern: "files.evil-cdn.net:443", allow: true, sessionId: "a", workspace: null }],
    ]);
    await page.getByTestId("done-strip").getByRole("button", { name: /^Undo/ }).click();
    assert.equal((await calls(page, "removeRule")).length, 1);
  }));

test("what no rule can turn offers none", () =>
  feed("network", async (page) => {
    for (const target of ["169.254.169.254", "id_ed25519"]) {
      await rows(page).filter({ hasText: target }).click();
      await page.getByTestId("activity-detail").getByText(target, { exact: false }).first().waitFor();
      assert.equal(await page.getByRole("button", { name: /^Allow|^Always/ }).count(), 0);
    }
  }));

test("the list is worked by keys: down, Enter for the detail, and the detail closes", () =>
  feed("network", async (page) => {
    await list(page).focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page
      .getByTestId("activity-detail")
      .getByText("~/code/shop/.env", { exact: false })
      .or(page.getByTestId("activity-detail").getByText("/home/mira/code/shop/.env"))
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Close the detail" }).click();
    await page.getByTestId("activity-detail").waitFor({ state: "detached" });
  }));

test("the feed follows the pane in focus, or shows all sessions", () =>
  feed("network", async (page) => {
    assert.equal(await page.getByRole("button", { name: "session:sh" }).count(), 1);
    await page.locator("[data-session-id=b] .xterm-screen").click();
    await page.getByRole("button", { name: "session:claude" }).waitFor();
    await counted(page, "0 rows");
    await page.getByRole("button", { name: "session:claude" }).click();
    await page.getByRole("button", { name: "all sessions" }).waitFor();
    await rows(page).first().waitFor();
    assert.match(await rows(page).first().innerText(), /sh · /);
  }));

test("refusals count as seen once they were on view, and not before", () =>
  withWindow("network", { now: NOON }, async (page) => {
    const unread = (id) => page.locator(`[data-testid=session-row][data-session-id=${id}] .unread`);
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "markSeen"));
    await unread("a").waitFor({ state: "detached" });
    assert.equal(await unread("b").innerText(), "3");
    assert.deepEqual(await calls(page, "markSeen"), [["a"]]);
    await page.getByRole("tab", { name: "Policy" }).click();
    await page.evaluate(() => window.fake.network.attempt({ session: "b", host: "x.example" }));
    await unread("b").getByText("4").waitFor();
    assert.deepEqual(await calls(page, "markSeen"), [["a"]]);
  }));

test("an empty feed teaches what will stand there, by the session's network", async () => {
  await feed("network-empty", async (page) => {
    await page.getByText("Nothing was refused yet.").waitFor();
    await page.getByText(/For any other you are asked/).waitFor();
  });
  await feed("badge-none", async (page) => {
    await page.getByText("Nothing is watched.").waitFor();
  });
  await feed("one", async (page) => {
    await page.getByText(/connections are not observed/).waitFor();
  });
});

test("a page that cannot be read says why, and can be asked for again", () =>
  feed("network", async (page) => {
    await page.evaluate(() => {
      const { network } = window.fake;
      const real = network.activity.bind(network);
      network.activity = () => {
        network.activity = real;
        throw { code: "STORE_UNREADABLE", message: "the history cannot be read", causes: [], fix: null };
      };
    });
    await filter(page).fill("target:evil");
    await page.getByText("The history cannot be read.").waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await rows(page).first().waitFor();
  }));
