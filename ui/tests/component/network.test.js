// The network view: timeline, refused hosts, open connections, the list, tests and exports; rules.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOON, calls, dialog, useBrowser, withWindow } from "./support.js";

useBrowser();

async function network(scenario, look, options = {}) {
  await withWindow(scenario, { now: NOON, ...options }, async (page) => {
    await page.getByRole("tab", { name: "Network" }).click();
    await look(page);
  });
}

const chart = (page) => page.getByTestId("timeline");
const words = (page) => page.getByTestId("timeline-words");
const span = async (page) => {
  const [from, to] = await Promise.all(
    ["data-from", "data-to"].map((name) => chart(page).getAttribute(name)),
  );
  return Number(to) - Number(from);
};
const HOUR = 3_600_000;

// REQ UI-9
test("the timeline says in words what it draws", () =>
  network("network", async (page) => {
    await chart(page).locator("canvas").waitFor();
    assert.match(
      await words(page).innerText(),
      /^179 refused and \d+ allowed from 11:04 to 12:04; most refused at 12:03/,
    );
    await page.getByText("As a table").click();
    const table = page.getByRole("table");
    assert.match(await table.innerText(), /12:03\s+4\d\s/);
  }));

test("a part drawn with the pointer is looked at closer, and there is a way back", () =>
  network("network", async (page) => {
    await chart(page).locator("canvas").waitFor();
    assert.equal(await span(page), HOUR);
    const box = await chart(page).locator(".u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Back" }).waitFor();
    const closer = await span(page);
    assert.ok(Math.abs(closer - HOUR / 4) < HOUR / 20, `${closer} ms`);
    await page.waitForFunction(
      (wanted) => window.fake.calls.findLast((call) => call.method === "timeline").args[0].fromMs === wanted,
      Number(await chart(page).getAttribute("data-from")),
    );
    await page.getByRole("button", { name: "Back" }).click();
    await page.getByRole("button", { name: "Back" }).waitFor({ state: "detached" });
    assert.equal(await span(page), HOUR);
  }));

test("the timeline is worked by keys: steps, closer, and back", () =>
  network("network", async (page) => {
    await chart(page).locator("canvas").waitFor();
    await chart(page).focus();
    await page.keyboard.press("End");
    await page.getByText(/^12:03 · 40 refused · \d+ allowed$/).waitFor();
    await page.keyboard.press("ArrowLeft");
    await page.getByText(/^12:02 · /).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Back" }).waitFor();
    assert.ok((await span(page)) < HOUR / 2);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Back" }).waitFor({ state: "detached" });
  }));

test("another length is asked for, and stands out", () =>
  network("network", async (page) => {
    await page.getByRole("button", { name: "15 min" }).click();
    await page.waitForFunction(
      () =>
        Number(document.querySelector("[data-testid=timeline]").dataset.to) -
          Number(document.querySelector("[data-testid=timeline]").dataset.from) ===
        900_000,
    );
    assert.equal(await page.getByRole("button", { name: "15 min" }).getAttribute("aria-pressed"), "true");
  }));

test("refused hosts are ranked, with why, and lead to their attempts", () =>
  network("network", async (page) => {
    const hosts = page.getByRole("region", { name: "Refused hosts" }).getByRole("button");
    const [first, second] = await hosts.allInnerTexts();
    assert.match(first, /files\.evil-cdn\.net:443[\s\S]*150[\s\S]*not on the allowlist/);
    assert.match(second, /collector\.tracker\.example:443[\s\S]*18/);
    await hosts.first().click();
    assert.equal(
      await page.getByRole("searchbox", { name: "Filter the activity" }).inputValue(),
      "target:files.evil-cdn.net:443",
    );
  }));

test("open connections show their bytes and can be cut", () =>
  network("network", async (page) => {
    const open = page.getByTestId("open-connection");
    await open.nth(1).waitFor();
    assert.match(await open.first().innerText(), /github\.com:22[\s\S]*git · ↑ 5\.4 kB · ↓ 48 kB/);
    await open.first().getByRole("button", { name: "Cut github.com:22" }).click();
    await open.nth(1).waitFor({ state: "detached" });
    assert.deepEqual(await calls(page, "cutConnection"), [["a", 8901]]);
    // One that opens meanwhile joins.
    await page.evaluate(() => window.fake.network.attempt({ session: "a", host: "pypi.org" }));
    await open.filter({ hasText: "pypi.org:443" }).waitFor();
  }));

// REQ UI-4
test("the allowlist names the source of each entry, and takes and loses rules live", () =>
  network("network-rules", async (page) => {
    const allowed = page.getByTestId("allowlist");
    await allowed.getByText("package registries").click();
    assert.match(await allowed.innerText(), /Baseline\s+model providers\s+3/);
    assert.match(await allowed.innerText(), /GitHub/);
    await allowed.getByText("registry.npmjs.org").waitFor();
    assert.match(await allowed.innerText(), /Your rules\s+this workspace\s+1\s+\*\.debian\.org\s+Remove/);
    await page.getByLabel("Host pattern").fill("files.example.net:8443");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await allowed.getByText("files.example.net:8443").waitFor();
    assert.deepEqual(await calls(page, "addRule"), [
      [{ pattern: "files.example.net:8443", allow: true, sessionId: "a", workspace: null }],
    ]);
    await allowed.getByRole("button", { name: "Remove *.debian.org" }).click();
    await allowed.getByText("*.debian.org").waitFor({ state: "detached" });
    const strip = page.getByTestId("done-strip").filter({ hasText: "*.debian.org" });
    await strip.getByRole("button", { name: /^Undo/ }).click();
    await allowed.getByText("*.debian.org").waitFor();
    // Entries that are not the operator's cannot be removed.
    assert.equal(await allowed.getByRole("button", { name: "Remove registry.npmjs.org" }).count(), 0);
  }));

test("a rule can deny, for the workspace", () =>
  network("network", async (page) => {
    await page.getByLabel("What the rule does").selectOption("Deny");
    await page.getByLabel("How long it holds").selectOption("always, in ~/code/shop");
    await page.getByLabel("Host pattern").fill("*.tracker.example");
    await page.keyboard.press("Enter");
    await page.getByTestId("denylist").getByText("*.tracker.example").waitFor();
    assert.deepEqual(await calls(page, "addRule"), [
      [{ pattern: "*.tracker.example", allow: false, sessionId: null, workspace: "/home/mira/code/shop" }],
    ]);
  }));

// REQ EG-4
for (const pattern of ["*", "*.com", "a*.x.com", "x.*", "host:99999"]) {
  test(`the pattern ${pattern} is refused in the engine's words, and stays to be mended`, () =>
    network("network", async (page) => {
      const field = page.getByLabel("Host pattern");
      await field.fill(pattern);
      await page.keyboard.press("Enter");
      const alert = page.getByRole("form", { name: "Add a rule" }).getByRole("alert");
      await alert.waitFor();
      assert.match(await alert.innerText(), /is not a host pattern: /);
      assert.equal(await field.inputValue(), pattern);
      assert.equal(await field.getAttribute("aria-invalid"), "true");
      await field.fill("ok.example.com");
      assert.equal(await alert.count(), 0);
    }));
}

test("a destination can be tested: what would happen and why, and the way out", () =>
  network("network-rules", async (page) => {
    const field = page.getByRole("textbox", { name: "Test a destination" });
    const verdict = page.getByTestId("verdict");
    for (const [text, outcome, why] of [
      ["registry.npmjs.org", "allow", /package registries/],
      ["files.evil-cdn.net:443", "ask", /not on the allowlist/i],
      ["169.254.169.254:80", "deny", /cloud metadata, always refused/i],
      ["collector.tracker.example", "deny", /your rule/i],
      ["https://аpple.com/", "ask", /reads as аpple\.com:443\s+Mixes Latin and Cyrillic/],
    ]) {
      await field.fill(text);
      await page.keyboard.press("Enter");
      await page
        .locator(`[data-testid=verdict][data-verdict=${outcome}]`)
        .getByText(why)
        .or(verdict)
        .first()
        .waitFor();
      await page.waitForFunction(
        ([kind, pattern]) => {
          const shown = document.querySelector("[data-testid=verdict]");
          return shown?.dataset.verdict === kind && new RegExp(pattern, "i").test(shown.innerText);
        },
        [outcome, why.source],
      );
    }
    await field.fill("not a host");
    await page.keyboard.press("Enter");
    await page
      .getByText("Not a host cannot be read as a host and port.")
      .or(page.getByText("not a host cannot be read as a host and port.", { exact: false }))
      .first()
      .waitFor();
    // A verdict follows the rules.
    await field.fill("files.evil-cdn.net");
    await page.keyboard.press("Enter");
    await page.locator("[data-verdict=ask]").waitFor();
    await page.getByRole("button", { name: "Allow for the session" }).click();
    await page.locator("[data-verdict=allow]").waitFor();
  }));

for (const [label, format] of [
  ["JSON Lines…", "jsonLines"],
  ["CSV…", "csv"],
]) {
  test(`the history is exported as ${format}, and says where to`, () =>
    network("network-rules", async (page) => {
      await page.getByRole("button", { name: label }).click();
      await page.getByText("Written to ~/sh.csv").waitFor();
      const [[query, wanted]] = await calls(page, "exportActivity");
      assert.deepEqual([query.sessionId, query.before, wanted], ["a", null, format]);
    }));
}

test("an export that was cancelled says nothing", () =>
  network("network", async (page) => {
    await page.getByRole("button", { name: "CSV…" }).click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "exportActivity"));
    assert.equal(await page.getByText("Written to").count(), 0);
  }));

test("an open network says that it is not observed, and a none session that it has none of its own", async () => {
  await network("one", async (page) => {
    assert.match(await page.getByTestId("network-plain").innerText(), /Open: not observed\./);
    assert.deepEqual(await calls(page, "networkPolicy"), []);
  });
  await network("badge-none", async (page) => {
    assert.match(await page.getByTestId("network-plain").innerText(), /uses your network as you do/);
    assert.match(await page.getByTestId("pane").innerText(), /your network/i);
  });
});

test("a network that is off lists nothing and takes no rule, and still shows attempts", () =>
  network("network-off", async (page) => {
    await page.getByText("Nothing: the network is off, and no rule opens it.").waitFor();
    assert.equal(await page.getByLabel("Host pattern").count(), 0);
    assert.match(await words(page).innerText(), /^1 refused/);
  }));

test("every rule stands in one place, in words, and its removal can be undone", () =>
  withWindow("network-rules", { now: NOON }, async (page) => {
    await page.getByRole("button", { name: "Rules", exact: true }).click();
    const rules = dialog(page, "Rules");
    const rule = rules.getByTestId("rule");
    await rule.nth(2).waitFor();
    const text = await rules.innerText();
    assert.match(text, /~\/code\/shop every session, from now on[\s\S]*allow\s+\*\.debian\.org/);
    assert.match(text, /deny\s+collector\.tracker\.example/);
    assert.match(text, /sh until it ends, in ~\/code\/shop[\s\S]*files\.example\.org:443/);
    assert.match(text, /Your answer, 11:59:11\./);
    await rules.getByRole("button", { name: /^Remove: collector/ }).click();
    await rule.nth(2).waitFor({ state: "detached" });
    await rules.getByRole("button", { name: /^Undo: Removed: collector/ }).click();
    await rule.nth(2).waitFor();
    assert.deepEqual(await calls(page, "addRule"), [
      [
        {
          pattern: "collector.tracker.example",
          allow: false,
          sessionId: null,
          workspace: "/home/mira/code/shop",
        },
      ],
    ]);
  }));

test("without a rule the view teaches what makes one", () =>
  withWindow("network", { now: NOON }, async (page) => {
    await page.keyboard.press("Control+Shift+L");
    await dialog(page, "Rules")
      .getByText(/^No rule yet\./)
      .waitFor();
  }));

// REQ EG-12
test("what is let through is listed with where it is reached, and why it is not open", () =>
  network("network-grants", async (page) => {
    const grant = page.getByTestId("grant");
    await grant.nth(3).waitFor();
    assert.match(
      await grant.nth(0).innerText(),
      /Port 3000 inside\s+Revoke\s+opened here as 127\.0\.0\.1:8080 · 2 open/,
    );
    assert.match(await grant.nth(1).innerText(), /not open[\s\S]*port 5173 of this computer is taken/i);
    assert.match(
      await grant.nth(2).innerText(),
      /127\.0\.0\.1:5432 of this computer[\s\S]*reached inside as 127\.0\.0\.1:5432 · for the workspace/,
    );
    assert.match(await grant.nth(3).innerText(), /Your ssh agent[\s\S]*ssh-agent\.sock/);
  }));

test("a grant is revoked at once, and its number is what goes", () =>
  network("network-grants", async (page) => {
    const grant = page.getByTestId("grant");
    await grant.nth(3).waitFor();
    await page.getByRole("button", { name: "Revoke: Your ssh agent" }).click();
    await grant.nth(3).waitFor({ state: "detached" });
    assert.deepEqual(await calls(page, "revokeGrant"), [[4]]);
  }));

test("a port is granted to the session, a socket to later sessions, and what never is says why", () =>
  network("network-grants", async (page) => {
    const form = page.getByRole("form", { name: "Grant a port or a socket" });
    await form.getByText(/Everybody on this computer can connect to it/).waitFor();
    await form.getByLabel("Ports").fill("4000:4001");
    await form.getByRole("button", { name: "Grant" }).click();
    await page.getByTestId("grant").filter({ hasText: "Port 4000 inside" }).waitFor();
    await form.getByLabel("What is granted").selectOption("socket");
    await form.getByLabel("Path of the socket").fill("/run/docker.sock");
    await form.getByRole("button", { name: "Grant" }).click();
    await form.getByText(/never let into a sandbox: it controls containers/).waitFor();
    await form.getByLabel("Path of the socket").fill("/run/db.sock");
    await form.getByLabel("How long the grant holds").selectOption("workspace");
    await form.getByRole("button", { name: "Grant" }).click();
    await page
      .getByTestId("grant")
      .filter({ hasText: /db\.sock[\s\S]*for later sessions/ })
      .waitFor();
    const workspace = "/home/mira/code/shop";
    assert.deepEqual(await calls(page, "addGrant"), [
      [{ kind: "portIn", what: "4000:4001", sessionId: "a", workspace: null }],
      [{ kind: "socket", what: "/run/docker.sock", sessionId: "a", workspace: null }],
      [{ kind: "socket", what: "/run/db.sock", sessionId: null, workspace }],
    ]);
  }));

test("the agent is granted without a path", () =>
  network("network-grants", async (page) => {
    const form = page.getByRole("form", { name: "Grant a port or a socket" });
    await form.getByLabel("What is granted").selectOption("agent");
    await form.getByText(/sign with every key in it/).waitFor();
    await form.getByRole("button", { name: "Grant" }).click();
    await page.waitForFunction(() => window.fake.calls.some((call) => call.method === "addGrant"));
    assert.deepEqual(await calls(page, "addGrant"), [
      [{ kind: "socket", what: "ssh-agent", sessionId: "a", workspace: null }],
    ]);
  }));
