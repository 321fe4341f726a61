import { describe, expect, it } from "vitest";
import { crc32, crcText } from "./crc";
import { textBytes } from "./input";
import { webAddress } from "./links";
import { fontStack } from "./look";
import { isTerminalReply } from "./replies";
import { MOST_CHARS, shownTitle } from "./title";

describe("a title", () => {
  it("is plain text on one line", () => {
    expect(shownTitle("  vim  —  cart.ts ")).toBe("vim — cart.ts");
  });

  it("shows control and bidi characters instead of obeying them", () => {
    const title = shownTitle("safe\u202egnp.exe\u0007\u200b");
    expect(title).not.toMatch(/[\u0000-\u001f\u200b\u202e]/);
    expect(title).toContain("202e");
  });

  it("is cut, also when every character becomes longer", () => {
    expect([...shownTitle("x".repeat(5000))]).toHaveLength(MOST_CHARS);
    expect([...shownTitle("\u202e".repeat(5000))]).toHaveLength(MOST_CHARS);
    expect(shownTitle("x".repeat(MOST_CHARS))).toBe("x".repeat(MOST_CHARS));
  });
});

describe("a link", () => {
  it.each([
    ["https://example.com/a?b#c", "https://example.com/a?b#c"],
    ["http://example.com:8080", "http://example.com:8080/"],
    ["HTTPS://EXAMPLE.com/", "https://example.com/"],
    ["https://exаmple.com/", "https://xn--exmple-4nf.com/"],
    ["https://user@evil.example/", "https://user@evil.example/"],
  ])("%s is offered as %s", (text, address) => {
    expect(webAddress(text)).toBe(address);
  });

  it.each([
    "file:///etc/passwd",
    "vscode://file/x",
    "javascript:alert(1)",
    "mailto:a@b.c",
    "https:example.com",
    "https:///path",
    "//example.com",
    "example.com",
    "https://",
    "https://exa mple.com",
    "https://example.com/\u202egpj",
    "https://exa\u200bmple.com/",
    "https://example.com/\n",
    `https://example.com/${"a".repeat(5000)}`,
  ])("%j is not offered", (text) => {
    expect(webAddress(text)).toBeNull();
  });
});

describe("a terminal's own answers", () => {
  it.each([
    "\u001b[?1;2c",
    "\u001b[>0;276;0c",
    "\u001b[0n",
    "\u001b[24;80R",
    "\u001b[?24;80R",
    "\u001b[?2004;1$y",
    "\u001b[8;24;80t",
    "\u001b]11;rgb:0e0e/1010/1414\u001b\\",
    "\u001b]4;1;rgb:ffff/0000/0000\u0007",
    "\u001bP>|xterm.js(6.0.0)\u001b\\",
    "\u001bP1$r0m\u001b\\",
  ])("%j is one", (data) => {
    expect(isTerminalReply(data)).toBe(true);
  });

  it.each([
    "a",
    "\r",
    "\u001b",
    "\u001b[A",
    "\u001bOP",
    "\u001b[1;5C",
    "\u001b[15~",
    "\u001b[<0;3;4M",
    "\u001b[200~x\u001b[201~",
    "R",
    "c",
  ])("%j is typed", (data) => {
    expect(isTerminalReply(data)).toBe(false);
  });
});

describe("a checksum", () => {
  it("is the known one, also in pieces", () => {
    expect(crcText(crc32(textBytes("123456789")))).toBe("cbf43926");
    expect(crc32(textBytes("6789"), crc32(textBytes("12345")))).toBe(0xcbf43926);
    expect(crcText(crc32(new Uint8Array()))).toBe("00000000");
  });
});

describe("a font family", () => {
  it("stands before the bundled one and cannot leave its quotes", () => {
    expect(fontStack("Fira Code")).toMatch(/^"Fira Code", "JetBrains/);
    expect(fontStack('x";} body{')).toMatch(/^"x body", "JetBrains/);
    expect(fontStack(" ")).toMatch(/^"JetBrains/);
  });
});
