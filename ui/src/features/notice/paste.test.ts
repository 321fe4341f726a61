import { expect, test } from "vitest";
import { pasteLines } from "./paste";

test("lines are counted by every kind of line end, and the last end starts none", () => {
  expect(pasteLines("a\nb\r\nc\rd\n")).toEqual({
    count: 4,
    shown: ["a", "b", "c", "d"],
    rest: 0,
    hidden: false,
  });
});

test("hidden characters are shown and told; tabs are left", () => {
  const lines = pasteLines("\techo\u001b[A\nx");
  expect(lines.shown).toEqual(["\techo\\e[A", "x"]);
  expect(lines.hidden).toBe(true);
});

test("a long text is cut and the rest counted", () => {
  const lines = pasteLines(Array.from({ length: 100 }, (_, index) => `${index}`).join("\n"));
  expect(lines.shown).toHaveLength(40);
  expect([lines.count, lines.rest]).toEqual([100, 60]);
  expect(pasteLines(`${"x".repeat(5000)}\ny`).shown[0]).toBe(`${"x".repeat(2000)}…`);
});
