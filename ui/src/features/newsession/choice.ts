/** What the new-session sheet starts from and what it sends: pure, so that it can be tested alone. */
import type {
  BackendReport,
  ExecRestriction,
  LaunchRequest,
  Mode,
  NetworkMode,
  Preset,
  Program,
  SandboxBackend,
} from "../../backend/generated";
import { fullPath } from "../../shared/visible";
import { NO_GRANTS, requestedGrants, unfinishedGrants, type GrantChoice } from "../grants/words";

/** What the sheet holds while it is open. */
export interface Choice {
  program: Program;
  /** As typed: may begin with `~`. */
  folder: string;
  /** Undefined until something is chosen that this host can do. */
  backend: SandboxBackend | undefined;
  network: NetworkMode;
  /** As typed, one host pattern a line; kept while another network is looked at. */
  extraDomains: string;
  mode: Mode;
  /** As typed, one path a line. */
  protectedPaths: string;
  /** Whether programs in folders that it can write may run. */
  exec: ExecRestriction;
  /** Never taken from a last choice: what is let through is asked for each time. */
  grants: GrantChoice;
}

/** What the choice is made from. */
export interface Offer {
  backends: readonly BackendReport[];
  presets: readonly Preset[];
  home: string;
}

export function isAvailable(offer: Offer, backend: SandboxBackend): boolean {
  return offer.backends.some((report) => report.backend === backend && report.available);
}

/** The strongest sandbox that this host offers; never `none`, which is only ever chosen by hand. */
function best(offer: Offer): SandboxBackend | undefined {
  return (["microvm", "native"] as const).find((backend) => isAvailable(offer, backend));
}

function canRun(offer: Offer, program: Program): boolean {
  if (program.kind !== "preset") return true;
  return offer.presets.some((preset) => preset.id === program.id && preset.path !== null);
}

/** The last choice for a folder or for the repository that it is in, newest first. */
export function lastChoiceFor(
  choices: readonly LaunchRequest[],
  folder: string,
  repoRoot: string | null,
): LaunchRequest | undefined {
  return choices.find((choice) => choice.cwd === folder) ?? choices.find((choice) => choice.cwd === repoRoot);
}

/** The starting point for a folder: its last choice as far as this host can still do it. */
export function initialChoice(offer: Offer, folder: string, last: LaunchRequest | undefined): Choice {
  if (last === undefined) {
    return {
      program: { kind: "shell" },
      folder,
      backend: best(offer),
      network: "open",
      extraDomains: "",
      mode: "chat",
      protectedPaths: "",
      exec: "off",
      grants: NO_GRANTS,
    };
  }
  const wanted = last.backend === "auto" ? best(offer) : last.backend;
  return {
    program: canRun(offer, last.program) ? last.program : { kind: "shell" },
    folder,
    // A weaker sandbox is never put in the place of the one that was chosen.
    backend: wanted !== undefined && isAvailable(offer, wanted) ? wanted : undefined,
    network: last.network ?? "open",
    extraDomains: last.extraDomains.join("\n"),
    mode: last.mode,
    protectedPaths: last.protectedPaths.join("\n"),
    exec: last.execRestriction,
    grants: NO_GRANTS,
  };
}

/** What keeps a choice from being sent, in words; undefined when nothing does. */
export function unfinished(choice: Choice): string | undefined {
  if (choice.folder.trim() === "") return "Name a folder.";
  if (!/^(\/|~$|~\/)/.test(choice.folder.trim())) return "Write the whole path, from / or ~.";
  if (choice.program.kind === "command" && choice.program.line.trim() === "") return "Write a command.";
  if (choice.backend === undefined) return "Choose a sandbox.";
  const relative = paths(choice.protectedPaths).find((path) => !/^(\/|~$|~\/)/.test(path));
  if (relative !== undefined) return `Protected path “${relative}” must start from / or ~.`;
  if (takesGrants(choice)) return unfinishedGrants(choice.grants);
  return undefined;
}

/** Whether a choice holds what stands under More, which is shown open then. */
export function usesMore({ mode, protectedPaths, exec }: Choice): boolean {
  return mode !== "chat" || protectedPaths !== "" || exec !== "off";
}

/** Whether a network lets listed domains through, so that more can be listed. */
export function takesDomains(network: NetworkMode): boolean {
  return network === "allowlist" || network === "ask";
}

/** Whether a session has walls of its own, through which something can be let. */
export function takesGrants({ backend, network }: Pick<Choice, "backend" | "network">): boolean {
  return backend !== "none" && network !== "open";
}

function domains(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}

function paths(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** The request for a choice that is not {@link unfinished}. */
export function requestOf(
  choice: Choice,
  home: string,
  size: { cols: number; rows: number },
): LaunchRequest | undefined {
  const { backend } = choice;
  if (backend === undefined || unfinished(choice) !== undefined) return undefined;
  // A session without a sandbox takes none of these; sending them would promise something.
  const bare = backend === "none";
  return {
    program: choice.program,
    cwd: fullPath(choice.folder.trim(), home),
    backend,
    network: bare ? null : choice.network,
    extraDomains: bare || !takesDomains(choice.network) ? [] : domains(choice.extraDomains),
    ...requestedGrants(takesGrants(choice) ? choice.grants : NO_GRANTS),
    mode: bare ? "chat" : choice.mode,
    protectedPaths: bare ? [] : paths(choice.protectedPaths).map((path) => fullPath(path, home)),
    execRestriction: bare ? "off" : choice.exec,
    ...size,
  };
}
