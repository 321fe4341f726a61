import type { GrantInfo, NewGrant, Problem, SessionGrant, SessionInfo, Snapshot, UiEvent } from "./generated";
import { BackendError } from "./interface";

/** The engine around it. */
interface Owner {
  readonly state: Snapshot;
  tell: (events: UiEvent[]) => void;
}

/** What the grants of a stand-in engine start from. */
export interface FakeGrantsWorld {
  /** Why a grant of the snapshot is not open, by its number. */
  problems?: Record<number, Problem>;
  /** Connections through a grant, by its number. */
  open?: Record<number, number>;
}

const OWN_PORTS: readonly number[] = [22, 53, 80, 443, 1080, 3128];

/** Ports and sockets let through walls, all in memory. */
export class FakeGrants {
  #next: number;
  /** Grants of a workspace that were made while its sessions ran: they hold for later ones. */
  readonly #later = new Set<number>();

  constructor(
    private readonly world: FakeGrantsWorld,
    private readonly owner: Owner,
  ) {
    this.#next = Math.max(0, ...owner.state.grants.map((grant) => grant.id)) + 1;
  }

  take(event: UiEvent): void {
    if (event.type === "grants") this.owner.state.grants = event.grants;
  }

  ofSession(session: SessionInfo): SessionGrant[] {
    if (session.network === "open") return [];
    return this.owner.state.grants
      .filter((grant) =>
        grant.sessionId === null
          ? grant.workspace === session.workspace && !this.#later.has(grant.id)
          : grant.sessionId === session.id,
      )
      .map((grant) => {
        const problem = this.world.problems?.[grant.id] ?? null;
        return {
          grant,
          reachedBy: problem ? null : reachedBy(grant),
          problem,
          open: problem ? 0 : (this.world.open?.[grant.id] ?? 0),
        };
      });
  }

  add(wanted: NewGrant, session: SessionInfo | undefined): GrantInfo {
    const problem = problemOf(wanted);
    if (problem) throw new BackendError(problem);
    const [guest = "", host = guest] = wanted.what.split(":");
    const isPort = wanted.kind !== "socket";
    const grant: GrantInfo = {
      id: this.#next++,
      kind: wanted.kind,
      hostPort: isPort ? Number(host) : null,
      guestPort: isPort ? Number(guest) : null,
      path: isPort ? null : wanted.what,
      sessionId: wanted.sessionId,
      workspace: session?.workspace ?? wanted.workspace ?? this.owner.state.home,
      createdAtMs: this.owner.state.host.probedAtMs,
      words: `${wanted.kind} ${wanted.what}, ${session ? `until ${session.title} ends` : "for later sessions"}`,
    };
    if (grant.sessionId === null) this.#later.add(grant.id);
    this.owner.tell([{ type: "grants", grants: [...this.owner.state.grants, grant] }]);
    return grant;
  }

  revoke(id: number): void {
    const { grants } = this.owner.state;
    if (!grants.some((grant) => grant.id === id)) {
      throw new BackendError({
        code: "NO_SUCH_GRANT",
        message: `there is no grant ${id}`,
        causes: [],
        fix: null,
      });
    }
    this.owner.tell([{ type: "grants", grants: grants.filter((grant) => grant.id !== id) }]);
  }
}

function reachedBy(grant: GrantInfo): string {
  switch (grant.kind) {
    case "portIn":
      return `127.0.0.1:${grant.hostPort}`;
    case "portOut":
      return `127.0.0.1:${grant.guestPort}`;
    case "socket":
      return grant.path === "ssh-agent" ? "/run/user/1000/kotak/ssh-agent.sock" : (grant.path ?? "");
  }
}

function problemOf({ kind, what }: NewGrant): Problem | null {
  if (kind === "socket") {
    if (!/docker\.sock$/.test(what)) return null;
    return {
      code: "SOCKET_CONTROLS_HOST",
      message: `${what} is never let into a sandbox: it controls containers, and a container can mount the whole host`,
      causes: [],
      fix: {
        text: "Leave it out: with it there would be no sandbox. Do what needs it yourself, outside of the session.",
        command: null,
      },
    };
  }
  if (!OWN_PORTS.includes(Number(what.split(":")[0]))) return null;
  return {
    code: "GRANT_PORT_OWN",
    message: `port ${what.split(":")[0]} inside belongs to the session's own proxies`,
    causes: [],
    fix: { text: `Use a port inside other than ${OWN_PORTS.join(", ")}.`, command: null },
  };
}
