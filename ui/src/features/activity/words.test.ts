import { describe, expect, it, test } from "vitest";
import type {
  ActivityRow,
  DenyReason,
  NetworkMode,
  SessionInfo,
  SessionPhase,
} from "../../backend/generated";
import {
  attemptWords,
  evidenceWords,
  bytesWords,
  counted,
  durationWords,
  offersFor,
  ruleSubject,
  ruleWords,
  subline,
} from "./words";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1_000, "1.0 kB"],
  [9_949, "9.9 kB"],
  [9_960, "10 kB"],
  [212_000, "212 kB"],
  [999_600, "1.0 MB"],
  [1_400_000, "1.4 MB"],
  [2e15, "2000 TB"],
])("%d bytes are %s", (bytes, words) => {
  expect(bytesWords(bytes)).toBe(words);
});

test("one row is one row, and more than one may follow", () => {
  expect([counted(0, "row"), counted(1, "row"), counted(1, "row", true), counted(1_200, "target")]).toEqual([
    "0 rows",
    "1 row",
    "1+ rows",
    "1,200 targets",
  ]);
});

test.each([
  [420, "420 ms"],
  [1_250, "1.3 s"],
  [42_000, "42 s"],
  [61_000, "1 min 1 s"],
  [3_660_000, "1 h 1 min"],
])("%d ms last %s", (ms, words) => {
  expect(durationWords(ms)).toBe(words);
});

const session = (network: NetworkMode, phase: SessionPhase = "running") =>
  ({ id: "a", title: "sh", workspace: "/home/mira/shop", network, phase }) as SessionInfo;
const refused = (denied: DenyReason | null) =>
  ({
    outcome: denied === null ? "allowed" : "refused",
    target: "files.example.com:443",
    connection: { denied },
  }) as ActivityRow;

describe("the way out of a refusal", () => {
  it("is this host and port, for the session or for the workspace, in the words of the rule", () => {
    expect(offersFor(refused("notListed"), session("allowlist"), "/home/mira")).toEqual([
      {
        rule: { pattern: "files.example.com:443", allow: true, sessionId: "a", workspace: null },
        label: "Allow for the session",
        stores: "**files.example.com:443** may be reached by sh until it ends",
      },
      {
        rule: {
          pattern: "files.example.com:443",
          allow: true,
          sessionId: null,
          workspace: "/home/mira/shop",
        },
        label: "Always in this workspace",
        stores: "**files.example.com:443** may be reached by every session in ~/shop, from now on",
      },
    ]);
  });

  it("of a session that is over holds for its workspace only", () => {
    const offers = offersFor(refused("timeout"), session("ask", "ended"), "/home/mira");
    expect(offers.map((offer) => offer.label)).toEqual(["Always in this workspace"]);
  });

  it.each(["metadata", "telemetry", "malformed", "serverName", "networkOff", "operatorRule", "cut"] as const)(
    "is not offered for %s, which no rule would turn",
    (reason) => {
      expect(offersFor(refused(reason), session("ask"), "/home/mira")).toEqual([]);
    },
  );

  it.each(["open", "off"] as const)("is not offered where the network is %s", (network) => {
    expect(offersFor(refused("notListed"), session(network), "/home/mira")).toEqual([]);
  });

  it("is not offered for what passed, nor for a session that is not known", () => {
    expect(offersFor(refused(null), session("ask"), "/home/mira")).toEqual([]);
    expect(offersFor(refused("notListed"), undefined, "/home/mira")).toEqual([]);
  });
});

describe("a refused file or program", () => {
  const row = (action: string, other: string | null, evidence: "observed" | "inferred") =>
    ({
      action,
      target: "/home/mira/shop/a",
      evidence,
      why: "filename rule *.key",
      outcome: "refused",
      connection: null,
      file: { other },
    }) as ActivityRow;

  it("says in words what was tried, and the other end of a rename or a link without a direction", () => {
    expect(attemptWords(row("file-write-create", null, "observed"), "/home/mira")).toBe("create");
    expect(attemptWords(row("process-exec", null, "observed"), "/home/mira")).toBe("run");
    expect(attemptWords(row("file-write-rename", "/home/mira/b\u202e.key", "observed"), "/home/mira")).toBe(
      "rename, other end ~/b\\u{202e}.key",
    );
    expect(attemptWords(row("file-write-link", "/home/mira/shop/b", "observed"), "/home/mira")).toBe(
      "link, other end b",
    );
    expect(attemptWords(row("file-write-link", "/home/mira/shop/x/b", "observed"), "/home/mira")).toBe(
      "link, other end ~/shop/x/b",
    );
    expect(attemptWords(row("file-new-verb", null, "observed"), "/home/mira")).toBe("file-new-verb");
  });

  it("says how it is known: a program's refusal by the kernel was foreseen by the guard", () => {
    const known = row("process-exec", null, "inferred");
    expect(evidenceWords(known)).toBe("inferred: the guard foresaw that the kernel refuses it");
    expect(evidenceWords({ ...known, evidence: "observed" })).toBe("seen where it was decided");
    expect(evidenceWords({ ...known, file: null })).toBe("inferred: concluded from its effects");
  });

  it("says where it was only inferred", () => {
    expect(subline(row("process-exec", null, "inferred"))).toBe("filename rule *.key · inferred");
    expect(subline(row("process-exec", null, "observed"))).toBe("filename rule *.key");
  });

  it.each([
    [{ kind: "name", glob: "*.key" }, "*.key"],
    [{ kind: "protected", path: "/p" }, "/p"],
    [{ kind: "ancestor", path: "/p" }, "/p"],
    [{ kind: "anywhere", name: ".envrc" }, ".envrc"],
    [{ kind: "git", what: "core.pager" }, "core.pager"],
    [{ kind: "secret", path: "/s" }, "/s"],
    [{ kind: "undecided", reason: "too slow" }, "too slow"],
    [{ kind: "hardLink" }, null],
    [{ kind: "exec" }, null],
  ] as const)("names its rule %o", (rule, subject) => {
    expect(ruleWords(rule)).not.toBe("");
    expect(ruleSubject(rule)).toBe(subject);
  });
});
