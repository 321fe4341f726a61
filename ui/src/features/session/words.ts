import type { Aspect, Level, Program, Preset, SessionInfo, SessionPhase } from "../../backend/generated";

/** What the badge says beside the backend's name, so that none promises more than it holds. */
export function badgeSuffix(session: SessionInfo): string | undefined {
  switch (session.handle.backend) {
    case "native":
      return "no kernel boundary";
    case "none":
      return "no sandbox";
    case "microvm":
      return session.handle.details["accelerator"] === "tcg" ? "emulated" : undefined;
    case null:
      return undefined;
  }
}

export function phaseWords(phase: SessionPhase): string {
  switch (phase) {
    case "starting":
      return "starting";
    case "ready":
      return "ready";
    case "running":
      return "running";
    case "suspended":
      return "suspended";
    case "ended":
      return "ended";
    case "error":
      return "failed";
  }
}

const SIGNALS: Readonly<Record<number, string>> = {
  1: "hang-up",
  2: "interrupt",
  3: "quit",
  6: "abort",
  8: "arithmetic fault",
  9: "kill",
  11: "memory fault",
  13: "broken pipe",
  15: "termination",
};

/** How a session ended, with the signal's meaning where a signal did it. */
export function endWords(session: SessionInfo): string {
  const code = session.exitCode;
  if (code === null) return "ended";
  const signal = code > 128 ? SIGNALS[code - 128] : undefined;
  return signal === undefined ? `exited ${code}` : `exited ${code} · ${signal} signal`;
}

export function aspectName(aspect: Aspect): string {
  switch (aspect) {
    case "mounts":
      return "Files in view";
    case "secretReads":
      return "Secrets unreadable";
    case "protectedWrites":
      return "Protected paths";
    case "processes":
      return "Processes";
    case "network":
      return "Network";
    case "hostSockets":
      return "Host sockets";
    case "filenameRules":
      return "Filename rules";
    case "execRestriction":
      return "Exec restriction";
    case "fileReports":
      return "File reports";
  }
}

export function levelName(level: Level): string {
  switch (level) {
    case "on":
      return "enforced";
    case "partial":
      return "in part";
    case "off":
      return "not enforced";
  }
}

export function programWords(program: Program, presets: readonly Preset[]): string {
  switch (program.kind) {
    case "shell":
      return "Login shell";
    case "preset":
      return presets.find((preset) => preset.id === program.id)?.label ?? program.id;
    case "command":
      return program.line;
  }
}

/** Arguments as one line that a shell reads as the same arguments. */
export function shellLine(args: readonly string[]): string {
  return args
    .map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`))
    .join(" ");
}

/** Hours, minutes and seconds, with the day where it is another. */
export function clock(ms: number, now: number): string {
  const then = new Date(ms);
  const time = then.toLocaleTimeString("en-GB");
  return then.toDateString() === new Date(now).toDateString()
    ? time
    : `${then.toLocaleDateString("en-CA")} ${time}`;
}
