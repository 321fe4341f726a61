/** Words of the ask-first prompts. Pure. */
import type { Answer, AnswerScope, FoldedPrompts, HostHistory, Prompt } from "../../backend/generated";
import { shortPath, visibleText } from "../../shared/visible";

/** In the order in which they stand, refusals and permissions side by side. */
export const ANSWERS: readonly Answer[] = [
  "deny",
  "allowOnce",
  "denySession",
  "allowSession",
  "allowWorkspace",
];

export function isAllow(answer: Answer): boolean {
  return answer !== "deny" && answer !== "denySession";
}

export function answerLabel(answer: Answer, prompt: Prompt): string {
  const missed = prompt.state === "missed";
  switch (answer) {
    case "deny":
      return missed ? "Leave denied" : "Deny";
    case "denySession":
      return "Deny for the session";
    case "allowOnce":
      return missed ? "Allow the next one" : "Allow once";
    case "allowSession":
      return "Allow for the session";
    case "allowWorkspace":
      return "Always in this workspace";
  }
}

export function scopeLabel(scope: AnswerScope, prompt: Prompt): string {
  switch (scope) {
    case "hostPort":
      return "host and port";
    case "host":
      return "host";
    case "parent":
      return visibleText(prompt.parent ?? "");
  }
}

/** The scopes that the engine offers, the narrowest first. */
export function scopesOf(prompt: Prompt): AnswerScope[] {
  const order: readonly AnswerScope[] = ["hostPort", "host", "parent"];
  return order.filter((scope) => prompt.words.some((words) => words.scope === scope));
}

export function patternOf(prompt: Prompt, scope: AnswerScope): string {
  return visibleText(prompt.words.find((words) => words.scope === scope)?.pattern ?? targetOf(prompt));
}

export function targetOf(prompt: Prompt): string {
  const host = prompt.host.includes(":") ? `[${prompt.host}]` : prompt.host;
  return `${host}:${prompt.port}`;
}

/** The program that asked, or what stands for it. */
export function asker(prompt: Prompt): string {
  return prompt.process === null || prompt.process.name === ""
    ? "A program"
    : visibleText(prompt.process.name);
}

/** What an answer stores: the pattern, and what becomes of it. */
export function storedWords(
  answer: Answer,
  scope: AnswerScope,
  prompt: Prompt,
  home: string,
): { pattern: string; words: string } | null {
  const pattern = patternOf(prompt, scope);
  const session = visibleText(prompt.sessionTitle);
  switch (answer) {
    case "deny":
    case "allowOnce":
      return null;
    case "denySession":
      return { pattern, words: `is refused to ${session} until it ends` };
    case "allowSession":
      return { pattern, words: `may be reached by ${session} until it ends` };
    case "allowWorkspace":
      return {
        pattern,
        words: `may be reached by every session in ${visibleText(shortPath(prompt.workspace, home))}, from now on`,
      };
  }
}

/** A port says little where every port is meant. */
export function reachOf(scope: AnswerScope): string {
  switch (scope) {
    case "hostPort":
      return "this port only";
    case "host":
      return "any port";
    case "parent":
      return "any host below it, any port";
  }
}

export function attemptsWords(attempts: number): string {
  return attempts === 1 ? "1 attempt waits" : `${attempts.toLocaleString("en")} attempts wait`;
}

/** What was read of earlier connections, and no more: the history is bounded. */
export function historyWords(history: HostHistory): string {
  switch (history) {
    case "allowed":
      return "allowed before";
    case "noneAllowed":
      return "no allowed connection in the history";
    case "unknown":
      return "history not read";
  }
}

/** Seconds until a question denies by itself; null while it is held or over. */
export function secondsLeft(prompt: Prompt, now: number): number | null {
  if (prompt.state !== "waiting" || prompt.deadlineMs === null) return null;
  return Math.max(0, Math.ceil((prompt.deadlineMs - now) / 1_000));
}

/** The part of the countdown that is left, 0 to 1. */
export function partLeft(prompt: Prompt, now: number): number {
  if (prompt.deadlineMs === null || prompt.countdownMs <= 0) return 1;
  return Math.min(1, Math.max(0, (prompt.deadlineMs - now) / prompt.countdownMs));
}

export function foldedWords(folded: FoldedPrompts): string {
  const hosts = folded.hosts === 1 ? "1 more host" : `${folded.hosts.toLocaleString("en")} more hosts`;
  const denied = folded.deniedUnasked;
  if (denied === 0) return hosts;
  return `${hosts} · ${denied.toLocaleString("en")} ${denied === 1 ? "attempt" : "attempts"} denied unasked`;
}

/** No answer is taken so soon after a card appeared: it was meant for something else. */
export const TOO_EARLY_MS = 500;
