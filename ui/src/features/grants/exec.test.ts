import { describe, expect, test } from "vitest";
import { foldersOf, standingWords } from "./exec";

// REQ UI-7
describe("folders that would let a program run", () => {
  test.each([
    ["/w/shop/target/debug/build", "/w/shop", ["/w/shop/target/debug", "/w/shop/target", "/w/shop"]],
    ["/w/shop/run", "/w/shop", ["/w/shop"]],
    ["/w/shop/run", "/w/shop/", ["/w/shop"]],
    // Outside of the workspace, and beside it under a longer name, only its own.
    ["/home/mira/.cargo/bin/x", "/w/shop", ["/home/mira/.cargo/bin"]],
    ["/w/shop-old/bin/x", "/w/shop", ["/w/shop-old/bin"]],
    ["/home/mira/a/b", "/", ["/home/mira/a"]],
    // Never the root, and nothing of what is no path.
    ["/x", "/w/shop", []],
    ["x", "/w/shop", []],
    ["", "", []],
  ])("%s in %s", (program, workspace, folders) => {
    expect(foldersOf(program, workspace)).toEqual(folders);
  });
});

test("each standing has words of its own", () => {
  const all = (["inForce", "nextStart", "revoked", "unusable"] as const).map(standingWords);
  expect(new Set(all).size).toBe(4);
});
