import { describe, expect, it } from "vitest";
import type { ActivityRow } from "../../backend/generated";
import { compileFilter, parseFilter, sessionsNamed, withField, withoutField, type Scope } from "./filter";

const sessions = [
  { id: "s1", title: "bash" },
  { id: "s2", title: "claude" },
  { id: "s3", title: "bash" },
];
const scope: Scope = { sessions, session: null, refusedOnly: false, kind: null };

function row(part: Partial<ActivityRow> = {}): ActivityRow {
  return {
    id: 1,
    sessionId: "s1",
    atMs: 0,
    lastMs: 0,
    outcome: "refused",
    action: "network-outbound",
    target: "files.example.com:443",
    unicode: null,
    why: "not on the allowlist",
    wayOut: null,
    count: 1,
    process: { pid: 1, name: "curl", executable: null, command: "curl -O x.sh", cwd: null, parents: [] },
    evidence: "observed",
    raw: null,
    connection: null,
    file: null,
    ...part,
  };
}

const compiled = (text: string, part: Partial<Scope> = {}) =>
  compileFilter(parseFilter(text), { ...scope, ...part });

describe("a kind", () => {
  const connection = { host: "x" } as ActivityRow["connection"];
  const rows = [row({ connection }), row({ action: "file-write-create" }), row({ action: "process-exec" })];

  it.each([
    [null, [0, 1, 2]],
    ["network", [0]],
    ["files", [1]],
    ["exec", [2]],
  ] as const)("%s is asked for and keeps its rows alone", (kind, kept) => {
    const { query, matches } = compiled("", { kind });
    expect(query.kind).toBe(kind);
    expect(rows.flatMap((each, at) => (matches(each) ? [at] : []))).toEqual(kept);
  });

  it("takes words that match the other end of a move", () => {
    const file = { other: "/w/new.key" } as ActivityRow["file"];
    expect(compiled("new.key").matches(row({ file }))).toBe(true);
    expect(compiled("old.key").matches(row({ file }))).toBe(false);
  });
});

describe("filter words", () => {
  it.each([
    ["", [], []],
    ["curl", [], ["curl"]],
    ["process:curl evil", [["process", "curl"]], ["evil"]],
    [
      "Target:a target:b",
      [
        ["target", "a"],
        ["target", "b"],
      ],
      [],
    ],
    ['target:"my file" x', [["target", "my file"]], ["x"]],
    ['"two words"', [], ["two words"]],
    ['target:"open end', [["target", "open end"]], []],
    ["session:", [], []],
    ["session: x", [], ["x"]],
    ["host:443", [], ["host:443"]],
    ["target:[::1]:443", [["target", "[::1]:443"]], []],
  ] as const)("%s", (text, fields, words) => {
    const filter = parseFilter(text);
    expect(filter.fields.map(({ field, value }) => [field, value])).toEqual(fields);
    expect(filter.words).toEqual(words);
  });

  it("are set in the place of the same field, and others stay", () => {
    expect(withField("", "target", "a.example:443")).toBe("target:a.example:443");
    expect(withField('target:"old one" curl action:file', "target", "new")).toBe(
      "curl action:file target:new",
    );
    expect(withField("", "target", "/a b")).toBe('target:"/a b"');
    expect(withoutField("x session:s1 y", "session")).toBe("x y");
    expect(parseFilter(withField("", "target", '/a "b" c')).fields).toHaveLength(1);
  });
});

describe("a filter made ready", () => {
  it("asks the engine by field and matches the same rows itself", () => {
    const { query, matches } = compiled("process:CURL action:NETWORK target:example");
    expect([query.process, query.action, query.target]).toEqual(["CURL", "network", "example"]);
    expect(matches(row())).toBe(true);
    expect(matches(row({ process: null }))).toBe(false);
    expect(matches(row({ action: "x-network" }))).toBe(false);
    expect(matches(row({ target: "other.org:443" }))).toBe(false);
  });

  it("finds free words anywhere, all of them", () => {
    for (const word of ["files", "allowlist", "x.sh", "CURL", "outbound"]) {
      expect(compiled(word).matches(row()), word).toBe(true);
    }
    expect(compiled("files nowhere").matches(row())).toBe(false);
    expect(compiled("аpple").matches(row({ unicode: "аpple.com" }))).toBe(true);
  });

  it("keeps to the session in focus unless one is named", () => {
    expect(compiled("", { session: "s2" }).query.sessionId).toBe("s2");
    expect(compiled("", { session: "s2" }).matches(row())).toBe(false);
    expect(compiled("session:s1", { session: "s2" }).query.sessionId).toBe("s1");
    expect(compiled("session:claude").query.sessionId).toBe("s2");
  });

  it("narrows by itself where a name stands for several sessions", () => {
    const { query, matches } = compiled("session:bash");
    expect(query.sessionId).toBeNull();
    expect(["s1", "s2", "s3"].map((sessionId) => matches(row({ sessionId })))).toEqual([true, false, true]);
  });

  it("asks the history for a session that this window does not know", () => {
    expect(sessionsNamed("gone-7", sessions)).toEqual(["gone-7"]);
    expect(compiled("session:gone-7").query.sessionId).toBe("gone-7");
  });

  it("can leave out what passed", () => {
    const { query, matches } = compiled("", { refusedOnly: true });
    expect(query.refusedOnly).toBe(true);
    expect([matches(row()), matches(row({ outcome: "allowed" }))]).toEqual([true, false]);
  });
});
