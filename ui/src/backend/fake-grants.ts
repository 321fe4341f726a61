import type {
  ExecGrant,
  ExecPolicy,
  ExecStanding,
  GrantInfo,
  NewGrant,
  Problem,
  SessionGrant,
  SessionInfo,
  Snapshot,
  UiEvent,
} from "./generated";
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
  /** Where an approved folder stands that is not simply in force, by its number. */
  standing?: Record<number, ExecStanding>;
}

const OWN_PORTS: readonly number[] = [22, 53, 80, 443, 1080, 3128];

/** Ports and sockets let through walls, all in memory. */
export class FakeGrants {
  #next: number;
  /** Grants of a workspace that were made while its sessions ran: they hold for later ones. */
  readonly #later = new Set<number>();
  /** Approved folders that were revoked and hold until their sessions end. */
  readonly #revoked: GrantInfo[] = [];

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
      .filter((grant) => grant.kind !== "exec" && this.#holds(grant, session))
      .filter((grant) => grant.sessionId !== null || !this.#later.has(grant.id))
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

  execPolicy(session: SessionInfo): ExecPolicy {
    const revoked = this.#revoked.filter((grant) => this.#holds(grant, session));
    const known = this.owner.state.grants.filter(
      (grant) => grant.kind === "exec" && this.#holds(grant, session),
    );
    const standing = (grant: GrantInfo): ExecStanding =>
      this.world.standing?.[grant.id] ?? (this.#later.has(grant.id) ? "nextStart" : "inForce");
    const all: ExecGrant[] = [
      ...known.map((grant) => ({
        grant,
        standing: standing(grant),
        problem: this.world.problems?.[grant.id] ?? null,
      })),
      ...revoked.map((grant) => ({ grant, standing: "revoked" as const, problem: null })),
    ];
    return {
      restriction: session.request.execRestriction,
      grants: all.sort((one, other) => one.grant.id - other.grant.id),
    };
  }

  /** A session was started anew: what was approved is in force, what was revoked is gone. */
  restarted(session: SessionInfo): void {
    for (const grant of this.owner.state.grants) {
      if (grant.kind === "exec" && this.#holds(grant, session)) this.#later.delete(grant.id);
    }
    const kept = this.#revoked.filter((grant) => !this.#holds(grant, session));
    this.#revoked.splice(0, this.#revoked.length, ...kept);
  }

  #holds(grant: GrantInfo, session: SessionInfo): boolean {
    return grant.sessionId === null ? grant.workspace === session.workspace : grant.sessionId === session.id;
  }

  add(wanted: NewGrant, session: SessionInfo | undefined): GrantInfo {
    const problem = problemOf(wanted, this.owner.state.home);
    if (problem) throw new BackendError(problem);
    const [guest = "", host = guest] = wanted.what.split(":");
    const isPort = wanted.kind === "portIn" || wanted.kind === "portOut";
    const what =
      wanted.kind === "exec" ? `programs in ${wanted.what} may run` : `${wanted.kind} ${wanted.what}`;
    const grant: GrantInfo = {
      id: this.#next++,
      kind: wanted.kind,
      hostPort: isPort ? Number(host) : null,
      guestPort: isPort ? Number(guest) : null,
      path: isPort ? null : wanted.what,
      sessionId: wanted.sessionId,
      workspace: session?.workspace ?? wanted.workspace ?? this.owner.state.home,
      createdAtMs: this.owner.state.host.probedAtMs,
      words: `${what}, ${session ? `until ${session.title} ends` : "for later sessions"}`,
    };
    if (grant.sessionId === null || grant.kind === "exec") this.#later.add(grant.id);
    this.owner.tell([{ type: "grants", grants: [...this.owner.state.grants, grant] }]);
    return grant;
  }

  revoke(id: number): void {
    const { grants } = this.owner.state;
    const gone = grants.find((grant) => grant.id === id);
    if (gone?.kind === "exec" && !this.#later.has(id)) this.#revoked.push(gone);
    if (gone === undefined) {
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
    case "exec":
      return grant.path ?? "";
  }
}

function problemOf({ kind, what }: NewGrant, home: string): Problem | null {
  if (kind === "exec") {
    const wide = home === what || home.startsWith(what.endsWith("/") ? what : `${what}/`);
    if (!wide) return null;
    return {
      code: "EXEC_FOLDER_TOO_WIDE",
      message: `${what} is too wide to be approved: it holds your whole home folder`,
      causes: [],
      fix: {
        text: "Choose the folder that holds the program, or one between it and the workspace.",
        command: null,
      },
    };
  }
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
