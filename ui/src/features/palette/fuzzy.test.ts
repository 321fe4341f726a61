import { expect, test } from "vitest";
import { fuzzyFilter, fuzzyMatch } from "./fuzzy";

const titles = ["New session", "Next pane", "Find in the terminal", "Split right", "Settings", "Session"];
const found = (query: string) => fuzzyFilter(query, titles, (title) => title).map((each) => each.item);

test("an empty query keeps everything in its order", () => {
  expect(found("")).toEqual(titles);
  expect(found("  ")).toEqual(titles);
});

test("letters match in order, whatever their case", () => {
  expect(found("SPL")).toEqual(["Split right"]);
  expect(fuzzyMatch("lps", "Split")).toBeNull();
});

test("starts of words come before letters inside them", () => {
  expect(found("np")).toEqual(["Next pane"]);
  expect(found("se")[0]).toBe("Settings");
  expect(found("ns")[0]).toBe("New session");
  expect(found("sr")[0]).toBe("Split right");
});

test("the places of the letters are told", () => {
  expect(fuzzyMatch("fit", "Find in the terminal")?.at).toEqual([0, 5, 8]);
});

test("a query without a match finds nothing", () => {
  expect(found("zzz")).toEqual([]);
});
