import { describe, expect, it, test } from "vitest";
import { headAndTail, hostView } from "./hostname";

describe("a host", () => {
  it("of ASCII letters stands as it is", () => {
    expect(hostView("files.example.com:443", null)).toEqual({
      shown: "files.example.com:443",
      reads: null,
      note: null,
    });
  });

  it("with a Unicode form shows both, with the foreign letters apart", () => {
    const view = hostView("xn--pple-43d.com", "аpple.com");
    expect(view.shown).toBe("xn--pple-43d.com");
    expect(view.reads).toEqual([
      { text: "а", foreign: true },
      { text: "pple.com", foreign: false },
    ]);
  });

  it("that can be taken for another has its escaped letters apart, and says what they are", () => {
    const view = hostView("xn--pple-43d.com:443", "\\u{430}pple.com:443");
    expect(view.reads).toEqual([
      { text: "\\u{430}", foreign: true },
      { text: "pple.com:443", foreign: false },
    ]);
    expect(view.note).toMatch(/Mixes Latin and Cyrillic/);
    expect(hostView("xn--x", "\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com").note).toMatch(
      /Written in Cyrillic/,
    );
    expect(hostView("x", "\\u{ffffff}.com").reads).toHaveLength(2);
  });

  it.each([
    ["аpple.com", /Mixes Latin and Cyrillic/],
    ["gοοgle.com:443", /Mixes Latin and Greek/],
    ["аррӏе.com", /Written in Cyrillic letters, some of which look like Latin/],
    ["почта.example", /Written in Cyrillic/],
    ["日本語.jp", /Written in Han letters\.$/],
    ["サンプル例.jp", /Written in Katakana and Han letters\.$/],
    ["bücher.example", /letters beyond ASCII/],
  ])("%s comes with a note", (unicode, note) => {
    expect(hostView("xn--x", unicode).note).toMatch(note);
  });

  it("shows what is hidden or turns the direction", () => {
    const view = hostView("a\u202egpj.com", "a\u200bb\u202e.com");
    expect(view.shown).toBe("a\\u{202e}gpj.com");
    expect(view.reads?.map(({ text }) => text).join("")).toBe("a\\u{200b}b\\u{202e}.com");
  });
});

test("a long name gives way at its front", () => {
  expect(headAndTail("login.bank.example.evil.net:443", 12)).toEqual({
    head: "login.bank.example.",
    tail: "evil.net:443",
  });
  expect(headAndTail("short", 12)).toEqual({ head: "", tail: "short" });
  // A pair of surrogates is one letter.
  expect(headAndTail("a😀b", 2)).toEqual({ head: "a", tail: "😀b" });
});
