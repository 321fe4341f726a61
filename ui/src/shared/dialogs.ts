/**
 * Questions that any part of the window may ask. Each call resolves once the user has answered;
 * questions asked meanwhile wait their turn. `DialogHost.svelte` draws the first one.
 */
import { writable, type Readable } from "svelte/store";
import type { RunningProcess } from "../backend/generated";

/** What is about to end running programs. */
export interface CloseSubject {
  /** What is closed, for the title: `sh` or `3 panes`. */
  what: string;
  /** What happens to it. */
  verb?: "Close" | "Restart";
}

/** A session that would end with the application. */
export interface LivingSession {
  title: string;
  /** Its folder, as people read it. */
  where: string;
}

export type Question =
  | { kind: "close"; subject: CloseSubject; processes: readonly RunningProcess[] }
  | { kind: "paste"; text: string }
  | { kind: "link"; url: string }
  | { kind: "quit"; sessions: readonly LivingSession[] };

export interface PendingQuestion {
  id: number;
  question: Question;
}

interface Waiting extends PendingQuestion {
  resolve: (yes: boolean) => void;
  answered: Promise<boolean>;
}

let waiting: Waiting[] = [];
let nextId = 1;
const front = writable<PendingQuestion | undefined>(undefined);

/** The question on screen. */
export const currentQuestion: Readable<PendingQuestion | undefined> = front;

function ask(question: Question): Promise<boolean> {
  let resolve: (yes: boolean) => void = () => undefined;
  const answered = new Promise<boolean>((settle) => {
    resolve = settle;
  });
  waiting = [...waiting, { id: nextId++, question, resolve, answered }];
  front.set(waiting[0]);
  return answered;
}

/** Answers the question with this id; an answer to any other question is ignored. */
export function answer(id: number, yes: boolean): void {
  const [first, ...rest] = waiting;
  if (first === undefined || first.id !== id) return;
  waiting = rest;
  front.set(waiting[0]);
  first.resolve(yes);
}

/** Answers no to everything that waits: the window is going away. */
export function answerAllNo(): void {
  const all = waiting;
  waiting = [];
  front.set(undefined);
  for (const one of all) one.resolve(false);
}

/** Asks before ending running programs. Without any there is nothing to ask. */
export function confirmClose(
  processes: readonly RunningProcess[],
  subject: CloseSubject = { what: "this pane" },
): Promise<boolean> {
  return processes.length === 0 ? Promise.resolve(true) : ask({ kind: "close", subject, processes });
}

/** Asks before pasting text of more than one line, showing what would be typed. */
export function confirmPaste(text: string): Promise<boolean> {
  return ask({ kind: "paste", text });
}

/** Asks before opening a link, showing its full address. Never yes for other than http and https. */
export function confirmLink(url: string): Promise<boolean> {
  return ask({ kind: "link", url });
}

/** The same before starting a session again. */
export function confirmRestart(
  processes: readonly RunningProcess[],
  subject: CloseSubject = { what: "this session" },
): Promise<boolean> {
  return confirmClose(processes, { ...subject, verb: "Restart" });
}

/** Asks before the application ends with sessions alive; without any there is nothing to ask. */
export function confirmQuit(sessions: readonly LivingSession[]): Promise<boolean> {
  const asked = waiting.find(({ question }) => question.kind === "quit");
  // Asked to close again and again, the window still asks once.
  if (asked !== undefined) return asked.answered;
  return sessions.length === 0 ? Promise.resolve(true) : ask({ kind: "quit", sessions });
}
