/** Words for the values that the engine sends. */
import type { ExecRestriction, Mode, NetworkMode, SandboxBackend } from "../backend/generated";

export function backendName(backend: SandboxBackend): string {
  switch (backend) {
    case "microvm":
      return "microVM";
    case "native":
      return "native";
    case "none":
      return "none";
  }
}

export function networkName(mode: NetworkMode): string {
  switch (mode) {
    case "open":
      return "Open · not observed";
    case "allowlist":
      return "Allowlist";
    case "ask":
      return "Ask first";
    case "off":
      return "Off";
  }
}

/** What a network mode means for the session. */
export function networkMeaning(mode: NetworkMode): string {
  switch (mode) {
    case "open":
      return "The network is this host’s. Nothing is filtered and connections are not observed.";
    case "allowlist":
      return "Listed domains pass: model providers, Git hosts, package registries, and those you add. All others are refused, and shown.";
    case "ask":
      return "Listed domains pass. For any other you are asked while the program waits; without an answer it is refused.";
    case "off":
      return "No route out: the session reaches only itself. Every attempt is refused, and shown.";
  }
}

export function modeName(mode: Mode): string {
  switch (mode) {
    case "chat":
      return "Chat";
    case "review":
      return "Review";
    case "plan":
      return "Plan";
    case "orchestrate":
      return "Orchestrate";
  }
}

export function modeMeaning(mode: Mode): string {
  return mode === "chat"
    ? "Writable folders stay writable."
    : "Read-only: the home and the folder cannot be written to.";
}

/** From where programs may run, as a fact of a session. */
export function execMeaning(restriction: ExecRestriction): string {
  return restriction === "off"
    ? "run wherever they lie"
    : "refused in folders that it can write, but approved ones";
}
