import { expect, test } from "vitest";
import { nextIndex } from "./focus";

test("arrows go round, Home and End go to the ends, other keys go nowhere", () => {
  expect([nextIndex("ArrowDown", 2, 3), nextIndex("ArrowUp", 0, 3)]).toEqual([0, 2]);
  expect([nextIndex("Home", 2, 3), nextIndex("End", 0, 3)]).toEqual([0, 2]);
  expect(nextIndex("a", 0, 3)).toBeUndefined();
  expect(nextIndex("ArrowDown", 0, 0)).toBeUndefined();
  expect(nextIndex("ArrowDown", -1, 3)).toBe(0);
});
