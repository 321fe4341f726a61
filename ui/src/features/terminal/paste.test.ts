import { describe, expect, it } from "vitest";
import { isMultiline, needsQuestion, pasteData } from "./paste";

describe("a paste", () => {
  it("is typed as it is when it is plain text", () => {
    expect(pasteData("echo hällo\t✓", false)).toBe("echo hällo\t✓");
  });

  it("has Return for every kind of line break", () => {
    expect(pasteData("a\nb\r\nc\rd", false)).toBe("a\rb\rc\rd");
  });

  it.each([false, true])("cannot press keys by control characters (bracketed: %s)", (bracketed) => {
    const data = pasteData("a\u001b[A\u0003\u0004\u007f\u009b1~", bracketed);
    const body = bracketed ? data.slice("\u001b[200~".length, -"\u001b[201~".length) : data;
    expect(body).toBe("a␛[A␃␄␡\ufffd1~");
  });

  it("is bracketed where the program asks for it, and cannot close its own brackets", () => {
    expect(pasteData("x\u001b[201~\nrm -rf ~\n", true)).toBe("\u001b[200~x␛[201~\rrm -rf ~\r\u001b[201~");
  });
});

describe("a question before a paste", () => {
  it.each([
    ["ls", false, false],
    ["ls\n", false, true],
    ["ls\r\n", false, true],
    ["ls\n", true, false],
    ["a\nb", false, true],
    ["a\nb", true, true],
    ["a\r\rb", true, true],
    ["", false, false],
  ])("for %j, bracketed %s, is %s", (text, bracketed, asked) => {
    expect(needsQuestion(text, bracketed)).toBe(asked);
  });

  it("counts a leading line break as a second line", () => {
    expect(isMultiline("\nrm -rf ~")).toBe(true);
  });
});
