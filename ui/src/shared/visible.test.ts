import { expect, test } from "vitest";
import { emphasisRuns, fullPath, sentence, shortPath, visibleText } from "./visible";

test("plain text of any script is left as it is", () => {
  for (const text of ["plain", "grüße", "日本語", "👩", "naïve ‘quotes’ — and dashes"]) {
    expect(visibleText(text)).toBe(text);
  }
});

test.each([
  ["a\u001b[2Jb", "a\\e[2Jb"],
  ["a\nb\tc\r", "a\\nb\\tc\\r"],
  ["safe\u202egpj.exe", "safe\\u{202e}gpj.exe"],
  ["a\u200bb", "a\\u{200b}b"],
  ["a\u2066b", "a\\u{2066}b"],
  ["a\u{e0041}b", "a\\u{e0041}b"],
  ["a\ufeffb", "a\\u{feff}b"],
  ["a\u0000b", "a\\u{0000}b"],
  ["lone \ud800 half", "lone \\u{d800} half"],
])("hidden characters in %j are shown", (text, shown) => {
  expect(visibleText(text)).toBe(shown);
});

test("only the home directory itself becomes a tilde", () => {
  expect(shortPath("/home/mira/x", "/home/mira")).toBe("~/x");
  expect(shortPath("/home/mira", "/home/mira")).toBe("~");
  expect(shortPath("/home/miranda/x", "/home/mira")).toBe("/home/miranda/x");
  expect(shortPath("/x", "/")).toBe("/x");
});

test("a tilde that was typed becomes the home directory", () => {
  expect(fullPath("~", "/home/mira")).toBe("/home/mira");
  expect(fullPath("~/x", "/home/mira")).toBe("/home/mira/x");
  expect(fullPath("~mira", "/home/mira")).toBe("~mira");
  expect(fullPath("/x/~", "/home/mira")).toBe("/x/~");
});

test("marks make runs, and an unpaired one is text", () => {
  expect(emphasisRuns("Can write to **~/a** and **b**.")).toEqual([
    { text: "Can write to ", strong: false },
    { text: "~/a", strong: true },
    { text: " and ", strong: false },
    { text: "b", strong: true },
    { text: ".", strong: false },
  ]);
  expect(emphasisRuns("2 ** 3")).toEqual([{ text: "2 ** 3", strong: false }]);
  expect(emphasisRuns("")).toEqual([]);
});

test("an engine's message becomes a sentence", () => {
  expect(sentence("bwrap failed")).toBe("Bwrap failed.");
  expect(sentence("Really?")).toBe("Really?");
  expect(sentence("no-such-program cannot be run")).toBe("no-such-program cannot be run.");
});
