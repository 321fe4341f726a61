/** The one table of commands: the key handler, the menus and the palette all read it. */

export type CommandId =
  | "session.new"
  | "palette.open"
  | "split.right"
  | "split.down"
  | "pane.next"
  | "pane.previous"
  | "tab.next"
  | "tab.previous"
  | "pane.find"
  | "pane.copy"
  | "pane.paste"
  | "pane.clear"
  | "pane.close"
  | "session.restart"
  | "session.suspend"
  | "session.resume"
  | "inspector.toggle"
  | "inspector.activity"
  | "inspector.network"
  | "prompt.queue"
  | "prompt.allow"
  | "prompt.deny"
  | "rules.open"
  | "zoom.in"
  | "zoom.out"
  | "zoom.reset"
  | "settings.open"
  | "host.open"
  | "host.probe"
  | "theme.system"
  | "theme.light"
  | "theme.dark"
  | "theme.contrast";

export interface Command {
  id: CommandId;
  title: string;
  group: "Session" | "Pane" | "Network" | "View" | "Host";
  /** As people read it; `Ctrl` stands for Cmd on macOS. */
  keys?: string;
}

export const commands: readonly Command[] = [
  { id: "session.new", title: "New session", group: "Session", keys: "Ctrl+Shift+N" },
  { id: "session.restart", title: "Restart the session", group: "Session", keys: "Ctrl+Shift+R" },
  { id: "session.suspend", title: "Suspend the session", group: "Session", keys: "Ctrl+Shift+Z" },
  { id: "session.resume", title: "Resume the session", group: "Session", keys: "Ctrl+Shift+G" },
  { id: "split.right", title: "Split right", group: "Pane", keys: "Ctrl+Shift+D" },
  { id: "split.down", title: "Split down", group: "Pane", keys: "Ctrl+Shift+E" },
  { id: "pane.next", title: "Next pane", group: "Pane", keys: "Ctrl+Shift+→" },
  { id: "pane.previous", title: "Previous pane", group: "Pane", keys: "Ctrl+Shift+←" },
  { id: "tab.next", title: "Next tab", group: "Pane", keys: "Ctrl+Shift+PageDown" },
  { id: "tab.previous", title: "Previous tab", group: "Pane", keys: "Ctrl+Shift+PageUp" },
  { id: "pane.find", title: "Find in the terminal", group: "Pane", keys: "Ctrl+Shift+F" },
  { id: "pane.copy", title: "Copy the selection", group: "Pane", keys: "Ctrl+Shift+C" },
  { id: "pane.paste", title: "Paste", group: "Pane", keys: "Ctrl+Shift+V" },
  { id: "pane.clear", title: "Clear the terminal", group: "Pane", keys: "Ctrl+Shift+K" },
  { id: "pane.close", title: "Close the pane", group: "Pane", keys: "Ctrl+Shift+W" },
  { id: "prompt.queue", title: "Questions that need you", group: "Network", keys: "Ctrl+Shift+J" },
  { id: "prompt.allow", title: "Allow once: the question in focus", group: "Network", keys: "Ctrl+Shift+Y" },
  { id: "prompt.deny", title: "Deny: the question in focus", group: "Network", keys: "Ctrl+Shift+U" },
  { id: "inspector.activity", title: "Activity: what was refused", group: "Network", keys: "Ctrl+Shift+A" },
  {
    id: "inspector.network",
    title: "Network: timeline and allowlist",
    group: "Network",
    keys: "Ctrl+Shift+M",
  },
  { id: "rules.open", title: "Rules", group: "Network", keys: "Ctrl+Shift+L" },
  { id: "palette.open", title: "Commands", group: "View", keys: "Ctrl+Shift+P" },
  { id: "inspector.toggle", title: "Show or hide the inspector", group: "View", keys: "Ctrl+Shift+I" },
  { id: "zoom.in", title: "Larger text", group: "View", keys: "Ctrl++" },
  { id: "zoom.out", title: "Smaller text", group: "View", keys: "Ctrl+-" },
  { id: "zoom.reset", title: "Text at its usual size", group: "View", keys: "Ctrl+0" },
  { id: "theme.system", title: "Theme: as the desktop", group: "View" },
  { id: "theme.light", title: "Theme: light", group: "View" },
  { id: "theme.dark", title: "Theme: dark", group: "View" },
  { id: "theme.contrast", title: "Theme: high contrast", group: "View" },
  { id: "settings.open", title: "Settings", group: "View", keys: "Ctrl+Shift+S" },
  { id: "host.open", title: "Host report", group: "Host", keys: "Ctrl+Shift+H" },
  { id: "host.probe", title: "Probe the host again", group: "Host", keys: "Ctrl+Shift+B" },
];

export function keysOf(id: CommandId): string | undefined {
  return commands.find((command) => command.id === id)?.keys;
}

/** The part of a keyboard event that decides. */
export interface Chord {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
  altKey: boolean;
}

const NAMED: Record<string, string> = {
  arrowright: "→",
  arrowleft: "←",
  pagedown: "pagedown",
  pageup: "pageup",
};

/** The command of a key chord; null for keys that belong to whatever has the focus. */
export function commandFor(chord: Chord, mac: boolean): CommandId | null {
  const lead = mac ? chord.metaKey && !chord.ctrlKey : chord.ctrlKey && !chord.metaKey;
  if (!lead || chord.altKey) return null;
  const raw = chord.key.toLowerCase();
  const key = NAMED[raw] ?? raw;
  // `+` needs Shift on some layouts and none on others; `=` is its key without Shift.
  if (key === "+" || key === "=") return "zoom.in";
  if (!chord.shiftKey && key === "-") return "zoom.out";
  const wanted = chord.shiftKey ? `ctrl+shift+${key}` : `ctrl+${key}`;
  return commands.find((command) => command.keys?.toLowerCase() === wanted)?.id ?? null;
}
