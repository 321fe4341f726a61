import { describe, expect, it } from "vitest";
import type { SessionInfo } from "../../backend/generated";
import { sortedDetails } from "./details";
import { verdictParts } from "./verdict";
import { endWords, shellLine } from "./words";

describe("the verdict", () => {
  it.each([
    [
      "on",
      "agent sandbox ON: bubblewrap 0.8, no kernel boundary",
      "agent sandbox ON",
      "bubblewrap 0.8, no kernel boundary",
    ],
    ["on", "agent sandbox ON · bubblewrap", "agent sandbox ON", "bubblewrap"],
    [
      "unavailable",
      "no OS-native agent sandbox on this host: install socat",
      "no OS-native agent sandbox on this host",
      "install socat",
    ],
    ["disabled", "agent sandbox DISABLED by --sandbox off", "agent sandbox DISABLED", "by --sandbox off"],
    ["on", "something else", "something else", ""],
  ] as const)("%s, %s", (state, line, head, rest) => {
    expect(verdictParts({ state, line })).toEqual({ head, rest });
  });
});

describe("an end", () => {
  it.each([
    [0, "exited 0"],
    [3, "exited 3"],
    [130, "exited 130 · interrupt signal"],
    [137, "exited 137 · kill signal"],
    [200, "exited 200"],
    [null, "ended"],
  ])("with %s is %j", (exitCode, words) => {
    expect(endWords({ exitCode } as SessionInfo)).toBe(words);
  });
});

describe("a launch plan", () => {
  it("is copied so that a shell reads the same arguments", () => {
    expect(shellLine(["bwrap", "--ro-bind", "/a b", "it's", ""])).toBe(
      `bwrap --ro-bind '/a b' 'it'\\''s' ''`,
    );
  });
});

describe("details", () => {
  it("are sorted, and none is left out", () => {
    const details = {
      argv: ["bwrap", "--args", "10"],
      withheldVariables: ["AWS_SECRET_ACCESS_KEY"],
      timings: { guardReadyMs: 9.1 },
      pid: 42,
      verified: { pid1: true },
      nothing: null,
    };
    expect(sortedDetails(details)).toEqual({
      argv: ["bwrap", "--args", "10"],
      withheld: ["AWS_SECRET_ACCESS_KEY"],
      timings: [{ name: "guard ready", ms: 9.1 }],
      others: [
        { name: "pid", value: "42" },
        { name: "verified", value: '{\n  "pid1": true\n}' },
      ],
    });
  });

  it("of an unknown shape are shown as they are", () => {
    expect(sortedDetails({ argv: "bwrap" })).toMatchObject({
      argv: [],
      others: [{ name: "argv", value: "bwrap" }],
    });
  });
});
