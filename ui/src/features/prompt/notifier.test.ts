import { describe, expect, it } from "vitest";
import type { Prompt } from "../../backend/generated";
import { Notifier } from "./notifier";

function prompt(id: string, part: Partial<Prompt> = {}): Prompt {
  return {
    id,
    sessionId: "a",
    sessionTitle: "sh",
    workspace: "/home/mira/shop",
    backend: "native",
    host: `${id}.example.com`,
    unicode: null,
    port: 443,
    parent: null,
    process: { pid: 1, name: "curl", executable: null, command: "curl", cwd: null, parents: [] },
    address: null,
    firstMs: 0,
    attempts: 1,
    history: "unknown",
    state: "waiting",
    deadlineMs: 60_000,
    countdownMs: 60_000,
    words: [],
    ...part,
  };
}

const HOME = "/home/mira";

describe("desktop notifications", () => {
  it("tell of each question once, however often it changes", () => {
    const notifier = new Notifier([]);
    expect(notifier.news([prompt("a")], 0, HOME)).toEqual([
      {
        title: "curl wants to reach a.example.com:443",
        body: "sh in ~/shop. Denied unless you answer in Kotak.",
      },
    ]);
    expect(notifier.news([prompt("a", { attempts: 300 })], 10, HOME)).toEqual([]);
    expect(notifier.news([prompt("a", { state: "missed" })], 20, HOME)).toEqual([]);
  });

  it("say nothing of what was there before the window", () => {
    expect(new Notifier([prompt("a")]).news([prompt("a")], 0, HOME)).toEqual([]);
  });

  it("fold under a flood: three alone, then one for all, and again half a minute later", () => {
    const notifier = new Notifier([]);
    const all: Prompt[] = [];
    const titles: string[] = [];
    for (let at = 0; at < 50; at++) {
      all.push(prompt(`h${at}`));
      titles.push(...notifier.news(all, at * 10, HOME).map((note) => note.title));
    }
    expect(titles).toEqual([
      "curl wants to reach h0.example.com:443",
      "curl wants to reach h1.example.com:443",
      "curl wants to reach h2.example.com:443",
      "4 questions wait for you",
    ]);
    all.push(prompt("late"));
    expect(notifier.news(all, 40_000, HOME).map((note) => note.title)).toEqual([
      "curl wants to reach late.example.com:443",
    ]);
  });

  it("show the end of a long host, and nothing hidden", () => {
    const host = `${"a".repeat(200)}.evil.net`;
    const [note] = new Notifier([]).news(
      [prompt("a", { host, sessionTitle: "s\u202eh", process: null })],
      0,
      HOME,
    );
    expect(note?.title).toMatch(/^A program wants to reach …a+\.evil\.net:443$/);
    expect(note?.title.length).toBeLessThan(120);
    expect(note?.body).toContain("s\\u{202e}h");
  });
});
