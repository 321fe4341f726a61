import type { CommandId } from "../shortcuts";
import { activeSession, stepPane, stepTab } from "./layout";
import type { App } from "./app.svelte";

const USUAL_FONT_SIZE = 13;
const MIN_FONT_SIZE = 8;
const MAX_FONT_SIZE = 40;

/** Whether a command can do anything now; the palette and the menus grey it out otherwise. */
export function isAvailable(app: App, command: CommandId): boolean {
  const session = app.current;
  switch (command) {
    case "split.right":
    case "split.down":
    case "pane.next":
    case "pane.previous":
    case "tab.next":
    case "tab.previous":
    case "pane.find":
    case "pane.copy":
    case "pane.paste":
    case "pane.clear":
    case "pane.close":
      return session !== undefined;
    case "session.restart":
      return session !== undefined && session.phase !== "starting";
    case "session.suspend":
      return session?.phase === "running" || session?.phase === "ready";
    case "session.resume":
      return session?.phase === "suspended";
    case "host.probe":
      return !app.probing;
    case "prompt.queue":
    case "prompt.allow":
    case "prompt.deny":
      return app.prompts.length > 0;
    case "session.new":
    case "palette.open":
    case "inspector.toggle":
    case "inspector.activity":
    case "inspector.network":
    case "rules.open":
    case "zoom.in":
    case "zoom.out":
    case "zoom.reset":
    case "settings.open":
    case "host.open":
    case "theme.system":
    case "theme.light":
    case "theme.dark":
    case "theme.contrast":
      return true;
  }
}

export async function runCommand(app: App, command: CommandId): Promise<void> {
  if (!isAvailable(app, command)) return;
  const session = activeSession(app.layout);
  const zoom = (size: number) =>
    app.changeSettings({ fontSize: Math.min(MAX_FONT_SIZE, Math.max(MIN_FONT_SIZE, size)) });
  switch (command) {
    case "session.new":
      return app.show({ kind: "new-session" });
    case "palette.open":
      return app.show({ kind: "palette" });
    case "settings.open":
      return app.show({ kind: "settings" });
    case "host.open":
      return app.show({ kind: "host-report" });
    case "host.probe":
      return app.probeAgain();
    case "inspector.toggle":
      app.inspector = !app.inspector;
      return;
    case "inspector.activity":
      return app.inspect("activity");
    case "inspector.network":
      return app.inspect("network");
    case "prompt.queue":
      return app.network.call();
    case "prompt.allow":
      return app.network.answerFocused("allowOnce");
    case "prompt.deny":
      return app.network.answerFocused("deny");
    case "rules.open":
      return app.show({ kind: "rules" });
    case "zoom.in":
      return zoom(app.settings.fontSize + 1);
    case "zoom.out":
      return zoom(app.settings.fontSize - 1);
    case "zoom.reset":
      return zoom(USUAL_FONT_SIZE);
    case "theme.system":
      return app.changeSettings({ theme: "system" });
    case "theme.light":
      return app.changeSettings({ theme: "light" });
    case "theme.dark":
      return app.changeSettings({ theme: "dark" });
    case "theme.contrast":
      return app.changeSettings({ theme: "highContrast" });
    default:
      if (session !== null) return runPaneCommand(app, command, session);
  }
}

/** Commands of one pane; the pane menus call them for a pane that need not have the focus. */
export async function runPaneCommand(app: App, command: CommandId, session: string): Promise<void> {
  switch (command) {
    case "split.right":
    case "split.down":
      app.focusPane(session);
      return app.show({
        kind: "new-session",
        split: command === "split.right" ? "right" : "down",
        cwd: app.session(session)?.cwd ?? app.home,
      });
    case "pane.next":
      app.setLayout(stepPane(app.layout, 1));
      return app.focusTerminal();
    case "pane.previous":
      app.setLayout(stepPane(app.layout, -1));
      return app.focusTerminal();
    case "tab.next":
      app.setLayout(stepTab(app.layout, 1));
      return app.focusTerminal();
    case "tab.previous":
      app.setLayout(stepTab(app.layout, -1));
      return app.focusTerminal();
    case "pane.find":
      return app.terminals?.find(session);
    case "pane.copy":
      return app.terminals?.copy(session);
    case "pane.paste":
      return app.terminals?.paste(session);
    case "pane.clear":
      return app.terminals?.clear(session);
    case "pane.close":
      return app.closePane(session);
    case "session.restart":
      return app.restart(session);
    case "session.suspend":
      return app.suspend(session);
    case "session.resume":
      return app.resume(session);
    default:
      return;
  }
}
