import { describe, expect, test } from "vitest";
import type { LaunchRequest, Preset, SandboxBackend } from "../../backend/generated";
import { NO_GRANTS } from "../grants/words";
import {
  initialChoice,
  lastChoiceFor,
  requestOf,
  unfinished,
  usesMore,
  type Choice,
  type Offer,
} from "./choice";

const HOME = "/home/mira";
const SIZE = { cols: 80, rows: 24 };
const claude: Preset = { id: "claude", label: "Claude Code", path: "/usr/bin/claude" };

function offer(...available: SandboxBackend[]): Offer {
  return {
    backends: (["microvm", "native", "none"] as const).map((backend) => ({
      backend,
      available: available.includes(backend),
      requiresInstall: false,
      note: "",
      problem: null,
    })),
    presets: [claude, { ...claude, id: "codex", path: null }],
    home: HOME,
  };
}

function last(part: Partial<LaunchRequest> = {}): LaunchRequest {
  return {
    program: { kind: "shell" },
    cwd: `${HOME}/shop`,
    backend: "native",
    network: "off",
    extraDomains: [],
    portForwards: [],
    socketGrants: [],
    mode: "review",
    protectedPaths: [`${HOME}/shop/db`],
    execRestriction: "off",
    ...SIZE,
    ...part,
  };
}

const whole: Choice = {
  program: { kind: "shell" },
  folder: "~/shop",
  backend: "native",
  network: "open",
  extraDomains: "",
  mode: "chat",
  protectedPaths: "",
  exec: "off",
  grants: NO_GRANTS,
};

// REQ EG-12
describe("ports and sockets", () => {
  const agent = { ...NO_GRANTS, agent: true, portsIn: "3000" };

  test("are asked for only where the session has a network of its own", () => {
    for (const network of ["allowlist", "ask", "off"] as const) {
      const request = requestOf({ ...whole, network, grants: agent }, HOME, SIZE);
      expect(request?.socketGrants).toEqual([{ hostPath: "ssh-agent" }]);
      expect(request?.portForwards).toEqual([{ direction: "in", guestPort: 3000, hostPort: 3000 }]);
    }
    for (const bare of [{ network: "open" }, { network: "off", backend: "none" }] as const) {
      const request = requestOf({ ...whole, ...bare, grants: agent }, HOME, SIZE);
      expect([request?.portForwards, request?.socketGrants]).toEqual([[], []]);
    }
  });

  test("are not taken from a last choice", () => {
    const granted = last({ socketGrants: [{ hostPath: "ssh-agent" }] });
    expect(initialChoice(offer("native"), "/a", granted).grants).toEqual(NO_GRANTS);
  });

  test("what cannot be sent is named", () => {
    const wrong = { ...whole, network: "off", grants: { ...NO_GRANTS, portsIn: "x" } } as const;
    expect(unfinished(wrong)).toContain("“x”");
    expect(unfinished({ ...wrong, network: "open" })).toBeUndefined();
  });
});

describe("what the sheet starts from", () => {
  test("without a last choice the strongest sandbox that is there is taken", () => {
    expect(initialChoice(offer("microvm", "native", "none"), "/a", undefined).backend).toBe("microvm");
    expect(initialChoice(offer("native", "none"), "/a", undefined).backend).toBe("native");
  });

  // REQ BK-6
  test("none is never put in the place of a sandbox that is missing", () => {
    expect(initialChoice(offer("none"), "/a", undefined).backend).toBeUndefined();
    expect(initialChoice(offer("none"), "/a", last()).backend).toBeUndefined();
    expect(initialChoice(offer("none"), "/a", last({ backend: "auto" })).backend).toBeUndefined();
    expect(
      initialChoice(offer("native", "none"), "/a", last({ backend: "microvm" })).backend,
    ).toBeUndefined();
  });

  test("none stays none where it was the last choice", () => {
    expect(initialChoice(offer("native", "none"), "/a", last({ backend: "none" })).backend).toBe("none");
  });

  test("the whole last choice comes back", () => {
    expect(
      initialChoice(
        offer("native", "none"),
        "~/shop",
        last({ program: { kind: "preset", id: "claude" }, execRestriction: "writable" }),
      ),
    ).toEqual({
      program: { kind: "preset", id: "claude" },
      folder: "~/shop",
      backend: "native",
      network: "off",
      extraDomains: "",
      mode: "review",
      protectedPaths: `${HOME}/shop/db`,
      exec: "writable",
      grants: NO_GRANTS,
    });
  });

  test("a program that is no longer on PATH gives way to the shell", () => {
    const choice = initialChoice(offer("native"), "/a", last({ program: { kind: "preset", id: "codex" } }));
    expect(choice.program).toEqual({ kind: "shell" });
  });

  test("the last choice is the folder's own, else its repository's", () => {
    const own = last({ cwd: "/r/src" });
    const root = last({ cwd: "/r" });
    expect(lastChoiceFor([root, own], "/r/src", "/r")).toBe(own);
    expect(lastChoiceFor([root, own], "/r/docs", "/r")).toBe(root);
    expect(lastChoiceFor([root, own], "/elsewhere", null)).toBeUndefined();
  });
});

describe("what the sheet sends", () => {
  test("a tilde is the home directory", () => {
    expect(requestOf({ ...whole, protectedPaths: "~/shop/db\n\n /etc/x " }, HOME, SIZE)).toEqual({
      program: { kind: "shell" },
      cwd: `${HOME}/shop`,
      backend: "native",
      network: "open",
      extraDomains: [],
      portForwards: [],
      socketGrants: [],
      mode: "chat",
      protectedPaths: [`${HOME}/shop/db`, "/etc/x"],
      execRestriction: "off",
      ...SIZE,
    });
  });

  // REQ TM-5
  test.each(["allowlist", "ask"] as const)("extra domains go with %s", (network) => {
    const request = requestOf(
      { ...whole, network, extraDomains: " a.example\n*.b.example, c.example:22 " },
      HOME,
      SIZE,
    );
    expect(request?.extraDomains).toEqual(["a.example", "*.b.example", "c.example:22"]);
  });

  test.each(["open", "off"] as const)("extra domains do not go with %s, and are not lost", (network) => {
    const choice: Choice = { ...whole, network, extraDomains: "a.example" };
    expect(requestOf(choice, HOME, SIZE)?.extraDomains).toEqual([]);
    expect(requestOf({ ...choice, network: "ask" }, HOME, SIZE)?.extraDomains).toEqual(["a.example"]);
  });

  test("the last choice brings its extra domains", () => {
    const choice = initialChoice(
      offer("native"),
      "~/shop",
      last({ network: "ask", extraDomains: ["a.example", "b.example"] }),
    );
    expect(requestOf(choice, HOME, SIZE)?.extraDomains).toEqual(["a.example", "b.example"]);
  });

  test("a session without a sandbox is sent no network, mode or protected path", () => {
    const request = requestOf(
      {
        ...whole,
        backend: "none",
        network: "ask",
        extraDomains: "a.example",
        mode: "plan",
        protectedPaths: "/etc",
        exec: "writable",
      },
      HOME,
      SIZE,
    );
    expect(request).toMatchObject({
      backend: "none",
      network: null,
      extraDomains: [],
      portForwards: [],
      socketGrants: [],
      mode: "chat",
      protectedPaths: [],
      execRestriction: "off",
    });
  });

  // REQ BW-6
  test("programs are refused where that was chosen, and More is open for it", () => {
    const choice = { ...whole, exec: "writable" as const };
    expect(requestOf(choice, HOME, SIZE)?.execRestriction).toBe("writable");
    expect([usesMore(whole), usesMore(choice)]).toEqual([false, true]);
  });

  test.each<[Partial<Choice>, string]>([
    [{ folder: " " }, "Name a folder."],
    [{ folder: "code/shop" }, "Write the whole path, from / or ~."],
    [{ folder: "~root/x" }, "Write the whole path, from / or ~."],
    [{ program: { kind: "command", line: " " } }, "Write a command."],
    [{ backend: undefined }, "Choose a sandbox."],
    [{ protectedPaths: "db" }, "Protected path “db” must start from / or ~."],
  ])("%j is not sent", (change, words) => {
    expect(unfinished({ ...whole, ...change })).toBe(words);
    expect(requestOf({ ...whole, ...change }, HOME, SIZE)).toBeUndefined();
  });
});
