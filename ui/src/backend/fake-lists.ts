// What the in-memory network knows by heart: its lists, and its words.
import type { DenyReason } from "./generated";

export const BASELINE: readonly (readonly [pattern: string, group: string])[] = [
  ["api.anthropic.com", "model providers"],
  ["api.openai.com", "model providers"],
  ["generativelanguage.googleapis.com", "model providers"],
  ["gitlab.com", "Git hosts"],
  ["codeberg.org", "Git hosts"],
  ["registry.npmjs.org", "package registries"],
  ["pypi.org", "package registries"],
  ["files.pythonhosted.org", "package registries"],
  ["static.crates.io", "package registries"],
];
export const GITHUB: readonly string[] = ["github.com", "api.github.com", "*.githubusercontent.com"];
export const DENIED: readonly (readonly [pattern: string, group: string, reason: DenyReason])[] = [
  ["169.254.169.254", "cloud metadata", "metadata"],
  ["metadata.google.internal", "cloud metadata", "metadata"],
  ["*.sentry.io", "telemetry collectors", "telemetry"],
];

export function targetOf({ host, port }: { host: string; port?: number }): string {
  return `${host}:${port ?? 443}`;
}

export function whyOf(reason: DenyReason): string {
  switch (reason) {
    case "answer":
      return "you answered no";
    case "timeout":
      return "nobody answered in time";
    case "operatorRule":
      return "a rule of yours says no";
    case "networkOff":
      return "the network is off";
    default:
      return "not on the allowlist";
  }
}

export function matches(pattern: string, host: string, port: number): boolean {
  const [name = "", at] = pattern.split(":");
  if (at !== undefined && Number(at) !== port) return false;
  return name.startsWith("*.") ? host.endsWith(name.slice(1)) : host === name;
}

export function patternProblem(pattern: string): string | null {
  const [name = "", port] = pattern.split(":");
  if (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535)) return "the port is out of range";
  if (name === "") return "it is empty";
  if (/\s/.test(name)) return "it holds a space";
  if (!name.includes("*")) return null;
  if (!/^\*\.[^*]+$/.test(name)) return "a * stands alone in front, once";
  return name.split(".").length < 3 ? "what follows the * is not a registrable domain" : null;
}
