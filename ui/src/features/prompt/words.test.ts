import { describe, expect, it, test } from "vitest";
import type { Answer, AnswerScope, Prompt } from "../../backend/generated";
import {
  ANSWERS,
  answerLabel,
  asker,
  foldedWords,
  historyWords,
  isAllow,
  partLeft,
  patternOf,
  scopesOf,
  secondsLeft,
  storedWords,
  targetOf,
} from "./words";

const HOME = "/home/mira";

function prompt(part: Partial<Prompt> = {}): Prompt {
  return {
    id: "q",
    sessionId: "a",
    sessionTitle: "sh",
    workspace: `${HOME}/shop`,
    backend: "native",
    host: "files.example.com",
    unicode: null,
    port: 443,
    parent: "*.example.com",
    process: null,
    address: null,
    firstMs: 0,
    attempts: 1,
    history: "unknown",
    state: "waiting",
    deadlineMs: 60_000,
    countdownMs: 60_000,
    words: [
      { scope: "host", pattern: "files.example.com" },
      { scope: "hostPort", pattern: "files.example.com:443" },
      { scope: "parent", pattern: "*.example.com" },
    ],
    ...part,
  };
}

// REQ EG-9
test("there are five answers, and two of them refuse", () => {
  expect(ANSWERS).toHaveLength(5);
  expect(ANSWERS.filter((answer) => !isAllow(answer))).toEqual(["deny", "denySession"]);
  expect(ANSWERS.map((answer) => answerLabel(answer, prompt()))).toEqual([
    "Deny",
    "Allow once",
    "Deny for the session",
    "Allow for the session",
    "Always in this workspace",
  ]);
});

describe("what an answer stores", () => {
  it.each<[Answer, AnswerScope, string | null]>([
    ["deny", "host", null],
    ["allowOnce", "parent", null],
    ["denySession", "hostPort", "files.example.com:443 is refused to sh until it ends"],
    ["allowSession", "host", "files.example.com may be reached by sh until it ends"],
    ["allowWorkspace", "parent", "*.example.com may be reached by every session in ~/shop, from now on"],
  ])("%s, %s", (answer, scope, words) => {
    const stored = storedWords(answer, scope, prompt(), HOME);
    expect(stored && `${stored.pattern} ${stored.words}`).toBe(words);
  });

  it("is what the engine says that it stores", () => {
    const odd = prompt({ words: [{ scope: "hostPort", pattern: "[2001:db8::1]:443" }] });
    expect(patternOf(odd, "hostPort")).toBe("[2001:db8::1]:443");
  });
});

test("only the scopes that the engine offers are there, the narrowest first", () => {
  expect(scopesOf(prompt())).toEqual(["hostPort", "host", "parent"]);
  expect(scopesOf(prompt({ words: [{ scope: "hostPort", pattern: "x" }] }))).toEqual(["hostPort"]);
});

test("hidden letters of a program are shown, and none stands for none", () => {
  const process = { pid: 1, name: "a\u202eb", executable: null, command: "", cwd: null, parents: [] };
  expect(asker(prompt({ process }))).toBe("a\\u{202e}b");
  expect(asker(prompt())).toBe("A program");
});

test("an address of version 6 stands in brackets", () => {
  expect(targetOf(prompt({ host: "2001:db8::1" }))).toBe("[2001:db8::1]:443");
});

describe("a countdown", () => {
  it("counts whole seconds down to none", () => {
    expect([0, 1, 59_001, 60_000, 70_000].map((now) => secondsLeft(prompt(), now))).toEqual([
      60, 60, 1, 0, 0,
    ]);
    expect(partLeft(prompt(), 15_000)).toBe(0.75);
    expect(partLeft(prompt(), 99_000)).toBe(0);
  });

  it("stands still while it is held, and is none once missed", () => {
    expect(secondsLeft(prompt({ deadlineMs: null }), 1)).toBeNull();
    expect(secondsLeft(prompt({ state: "missed", deadlineMs: null }), 1)).toBeNull();
  });
});

test("a fold is counted in hosts and in attempts", () => {
  expect(foldedWords({ sessionId: "a", hosts: 1, deniedUnasked: 0 })).toBe("1 more host");
  expect(foldedWords({ sessionId: "a", hosts: 12, deniedUnasked: 3_401 })).toBe(
    "12 more hosts · 3,401 attempts denied unasked",
  );
});

test("of the history only what was read of it is said", () => {
  expect((["unknown", "noneAllowed", "allowed"] as const).map(historyWords)).toEqual([
    "history not read",
    "no allowed connection in the history",
    "allowed before",
  ]);
});
