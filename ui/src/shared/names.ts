/** Words for the values that the engine sends. */
import type { Mode, NetworkMode, SandboxBackend } from "../backend/generated";

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

/** What a network mode means for the session, as it is enforced today. */
export function networkMeaning(mode: NetworkMode): string {
  switch (mode) {
    case "open":
      return "The network is this host’s. Nothing is filtered and connections are not observed.";
    case "allowlist":
      return "No route out yet: listed domains cannot be let through in this version, so the session reaches only itself.";
    case "ask":
      return "No route out yet: there is nothing to ask about in this version, so the session reaches only itself.";
    case "off":
      return "No route out. The session reaches only itself.";
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
