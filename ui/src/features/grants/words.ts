/** Grants in words, and what a person writes for one: pure, so that it can be tested alone. */
import type { GrantInfo, GrantKind, LaunchRequest } from "../../backend/generated";

/** What can be chosen to grant; the agent is a socket that needs no path. */
export type Choosable = Exclude<GrantKind, "exec"> | "agent";

export const AGENT = "ssh-agent";

export const CHOICES: readonly { value: Choosable; label: string }[] = [
  { value: "portIn", label: "Open a port inside" },
  { value: "portOut", label: "Reach a port of this computer" },
  { value: "agent", label: "Use your ssh agent" },
  { value: "socket", label: "Reach a socket" },
];

export function placeholder(kind: Choosable): string {
  return kind === "socket" ? "/run/postgresql/.s.PGSQL.5432" : "3000 or 3000:8080";
}

/** What it means to grant it, where that is more than its name says. */
export function meaning(kind: Choosable): string {
  switch (kind) {
    case "portIn":
      return "The port inside, then a colon and the port on 127.0.0.1 here where that is another. Everybody on this computer can connect to it.";
    case "portOut":
      return "The port inside, then a colon and the port of the server on 127.0.0.1 here where that is another.";
    case "agent":
      return "Programs inside can sign with every key in it. They cannot read the keys.";
    case "socket":
      return "The whole path, through no symbolic link. Sockets that control this computer, such as Docker’s, are never let in.";
  }
}

/** A grant in a few words; where it is reached stands beside it. */
export function grantTitle(grant: GrantInfo): string {
  switch (grant.kind) {
    case "portIn":
      return `Port ${grant.guestPort} inside`;
    case "portOut":
      return `127.0.0.1:${grant.hostPort} of this computer`;
    case "socket":
      return grant.path === AGENT ? "Your ssh agent" : (grant.path ?? "A socket");
    case "exec":
      return `Programs in ${grant.path ?? "a folder"}`;
  }
}

/** Where it is reached, as what stands before the address or the path. */
export function reachedWords(kind: GrantKind): string {
  return kind === "portIn" ? "opened here as" : "reached inside as";
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}

function isPorts(text: string): boolean {
  const fits = (port: string) => Number(port) >= 1 && Number(port) <= 65_535;
  return /^\d{1,5}(:\d{1,5})?$/.test(text) && text.split(":").every(fits);
}

/** What the sheet holds of grants, as typed. */
export interface GrantChoice {
  /** Ports inside to open here, apart by spaces. */
  portsIn: string;
  /** Ports of this computer to reach, apart by spaces. */
  portsOut: string;
  agent: boolean;
  /** One path a line. */
  sockets: string;
}

export const NO_GRANTS: GrantChoice = { portsIn: "", portsOut: "", agent: false, sockets: "" };

/** What keeps it from being sent, in words; undefined when nothing does. */
export function unfinishedGrants({ portsIn, portsOut, sockets }: GrantChoice): string | undefined {
  const port = [...words(portsIn), ...words(portsOut)].find((text) => !isPorts(text));
  if (port !== undefined) return `“${port}” is no port: write 3000, or 3000:8080.`;
  const relative = lines(sockets).find((path) => !path.startsWith("/"));
  if (relative !== undefined) return `Socket “${relative}” must start from /.`;
  return undefined;
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** The same as a launch takes it. */
export function requestedGrants(choice: GrantChoice): Pick<LaunchRequest, "portForwards" | "socketGrants"> {
  const forwards = (direction: "in" | "out", text: string) =>
    words(text).map((each) => {
      const [guest = "", host = guest] = each.split(":");
      return { direction, guestPort: Number(guest), hostPort: Number(host) };
    });
  return {
    portForwards: [...forwards("in", choice.portsIn), ...forwards("out", choice.portsOut)],
    socketGrants: [...(choice.agent ? [AGENT] : []), ...lines(choice.sockets)].map((hostPath) => ({
      hostPath,
    })),
  };
}
