import type { SessionInfo } from "../../backend/generated";
import type { MenuItem } from "../../shared/MenuPopup.svelte";
import { keysOf, type CommandId } from "../../shortcuts";
import type { App } from "../../state/app.svelte";
import { runPaneCommand } from "../../state/commands";
import { isLive } from "../../state/reduce";

function item(
  app: App,
  session: SessionInfo,
  id: CommandId,
  label: string,
  more: Partial<MenuItem> = {},
): MenuItem {
  return {
    id,
    label,
    keys: keysOf(id),
    onselect: () => {
      app.focusPane(session.id);
      void runPaneCommand(app, id, session.id);
    },
    ...more,
  };
}

/** The menu in a pane's title bar. */
export function paneMenu(app: App, session: SessionInfo): MenuItem[] {
  const canSuspend = session.phase === "running" || session.phase === "ready";
  const freeze =
    session.phase === "suspended"
      ? item(app, session, "session.resume", "Resume")
      : item(app, session, "session.suspend", "Suspend", { disabled: !canSuspend });
  return [
    item(app, session, "session.restart", "Restart", { disabled: session.phase === "starting" }),
    freeze,
    item(app, session, "pane.clear", "Clear"),
    item(app, session, "pane.find", "Find"),
    item(app, session, "split.right", "Split right"),
    item(app, session, "split.down", "Split down"),
    item(app, session, "pane.close", "Close", { danger: true }),
  ];
}

/** The menu of a right click into a terminal. */
export function terminalMenu(app: App, session: SessionInfo, hasSelection: boolean): MenuItem[] {
  return [
    item(app, session, "pane.copy", "Copy", { disabled: !hasSelection }),
    item(app, session, "pane.paste", "Paste", { disabled: !isLive(session.phase) }),
    item(app, session, "pane.find", "Find"),
    item(app, session, "pane.clear", "Clear"),
    item(app, session, "split.right", "Split right"),
    item(app, session, "split.down", "Split down"),
  ];
}
