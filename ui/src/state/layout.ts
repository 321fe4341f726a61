/**
 * Tabs and splits as a value. Every function returns a new layout and changes none; a session stands
 * in at most one pane, and a pane is known by its session's id.
 */

/** `row`: side by side; `column`: one above the other. */
export type Direction = "row" | "column";

export interface Pane {
  kind: "pane";
  session: string;
}

export interface Split {
  kind: "split";
  id: string;
  direction: Direction;
  /** The first child's share, between {@link MIN_RATIO} and 1 - {@link MIN_RATIO}. */
  ratio: number;
  first: Node;
  second: Node;
}

export type Node = Pane | Split;

export interface Tab {
  id: string;
  root: Node;
  /** The session of the pane that has the focus, or had it last. */
  active: string;
}

export interface Layout {
  tabs: Tab[];
  /** Id of the tab in view; null exactly when there is no tab. */
  activeTab: string | null;
}

export const MIN_RATIO = 0.1;
export const emptyLayout: Layout = { tabs: [], activeTab: null };

export function clampRatio(ratio: number): number {
  return Math.min(1 - MIN_RATIO, Math.max(MIN_RATIO, Number.isFinite(ratio) ? ratio : 0.5));
}

/** Sessions of a tree, in reading order. */
export function sessionsOf(node: Node): string[] {
  return node.kind === "pane" ? [node.session] : [...sessionsOf(node.first), ...sessionsOf(node.second)];
}

export function activeTab(layout: Layout): Tab | null {
  return layout.tabs.find((tab) => tab.id === layout.activeTab) ?? null;
}

export function activeSession(layout: Layout): string | null {
  return activeTab(layout)?.active ?? null;
}

export function tabOf(layout: Layout, session: string): Tab | null {
  return layout.tabs.find((tab) => sessionsOf(tab.root).includes(session)) ?? null;
}

function freshId(prefix: string, taken: (id: string) => boolean): string {
  for (let n = 1; ; n += 1) if (!taken(`${prefix}${n}`)) return `${prefix}${n}`;
}

function splitIds(node: Node): string[] {
  return node.kind === "pane" ? [] : [node.id, ...splitIds(node.first), ...splitIds(node.second)];
}

/** Puts the session in a tab of its own, after the tab in view, and goes there. */
export function openTab(layout: Layout, session: string): Layout {
  if (tabOf(layout, session)) return focusSession(layout, session);
  const id = freshId("t", (name) => layout.tabs.some((tab) => tab.id === name));
  const tab: Tab = { id, root: { kind: "pane", session }, active: session };
  const at = layout.tabs.findIndex((each) => each.id === layout.activeTab);
  const tabs = [...layout.tabs];
  tabs.splice(at < 0 ? tabs.length : at + 1, 0, tab);
  return { tabs, activeTab: id };
}

/** Splits the pane of `beside` and puts `session` to its right (`row`) or below it (`column`). */
export function splitPane(layout: Layout, beside: string, session: string, direction: Direction): Layout {
  const tab = tabOf(layout, beside);
  if (!tab || tabOf(layout, session)) return openTab(layout, session);
  const taken = layout.tabs.flatMap((each) => splitIds(each.root));
  const id = freshId("s", (name) => taken.includes(name));
  const root = mapPane(tab.root, beside, (pane) => ({
    kind: "split",
    id,
    direction,
    ratio: 0.5,
    first: pane,
    second: { kind: "pane", session },
  }));
  return { tabs: replaceTab(layout.tabs, { ...tab, root, active: session }), activeTab: tab.id };
}

/** Goes to the tab and pane of a session; the layout itself when it is in no pane. */
export function focusSession(layout: Layout, session: string): Layout {
  const tab = tabOf(layout, session);
  if (!tab) return layout;
  return { tabs: replaceTab(layout.tabs, { ...tab, active: session }), activeTab: tab.id };
}

export function selectTab(layout: Layout, id: string): Layout {
  return layout.tabs.some((tab) => tab.id === id) ? { ...layout, activeTab: id } : layout;
}

/** The tab `step` places on, round and round. */
export function stepTab(layout: Layout, step: number): Layout {
  const count = layout.tabs.length;
  const at = layout.tabs.findIndex((tab) => tab.id === layout.activeTab);
  const next = at < 0 ? undefined : layout.tabs[(((at + step) % count) + count) % count];
  return next ? { ...layout, activeTab: next.id } : layout;
}

/** The pane `step` places on within the tab in view, round and round. */
export function stepPane(layout: Layout, step: number): Layout {
  const tab = activeTab(layout);
  if (!tab) return layout;
  const panes = sessionsOf(tab.root);
  const at = panes.indexOf(tab.active);
  const next = panes[(((at + step) % panes.length) + panes.length) % panes.length];
  return next === undefined ? layout : focusSession(layout, next);
}

/** Takes a session's pane out; its sibling takes the room, and an empty tab goes. */
export function removeSession(layout: Layout, session: string): Layout {
  const tab = tabOf(layout, session);
  if (!tab) return layout;
  const root = withoutPane(tab.root, session);
  if (root) {
    const before = sessionsOf(tab.root);
    const after = sessionsOf(root);
    const heir = after[Math.min(before.indexOf(session), after.length - 1)] ?? tab.active;
    const active = tab.active === session ? heir : tab.active;
    return { ...layout, tabs: replaceTab(layout.tabs, { ...tab, root, active }) };
  }
  const at = layout.tabs.indexOf(tab);
  const tabs = layout.tabs.filter((each) => each !== tab);
  const heir = tabs[Math.min(at, tabs.length - 1)];
  return { tabs, activeTab: layout.activeTab === tab.id ? (heir?.id ?? null) : layout.activeTab };
}

/** The same pane with another session, after a restart under a new id. */
export function replaceSession(layout: Layout, from: string, to: string): Layout {
  if (from === to) return layout;
  const tab = tabOf(layout, from);
  if (!tab) return openTab(layout, to);
  const root = mapPane(tab.root, from, () => ({ kind: "pane", session: to }));
  const active = tab.active === from ? to : tab.active;
  return { ...layout, tabs: replaceTab(layout.tabs, { ...tab, root, active }) };
}

export function setRatio(layout: Layout, split: string, ratio: number): Layout {
  const set = (node: Node): Node => {
    if (node.kind === "pane") return node;
    if (node.id === split) return { ...node, ratio: clampRatio(ratio) };
    return { ...node, first: set(node.first), second: set(node.second) };
  };
  return { ...layout, tabs: layout.tabs.map((tab) => ({ ...tab, root: set(tab.root) })) };
}

/**
 * Fits a layout to the sessions that there are: panes of others go, and a live session that has no
 * pane gets a tab.
 */
export function reconcile(layout: Layout, present: readonly string[], live: readonly string[]): Layout {
  const known = new Set(present);
  let next = layout;
  for (const session of layout.tabs.flatMap((tab) => sessionsOf(tab.root))) {
    if (!known.has(session)) next = removeSession(next, session);
  }
  const view = next.activeTab;
  for (const session of live) {
    if (!tabOf(next, session)) next = openTab({ ...next, activeTab: next.tabs.at(-1)?.id ?? null }, session);
  }
  return view && next.tabs.some((tab) => tab.id === view) ? { ...next, activeTab: view } : next;
}

/** Reads a saved layout; null for anything that is not one. */
export function parseLayout(json: string | null): Layout | null {
  if (json === null) return null;
  try {
    const value: unknown = JSON.parse(json);
    if (!isRecord(value) || value["version"] !== 1 || !Array.isArray(value["tabs"])) return null;
    const seen = new Set<string>();
    const ids = new Set<string>();
    const tabs = value["tabs"].map((tab) => parseTab(tab, seen, ids));
    const activeTab = typeof value["activeTab"] === "string" ? value["activeTab"] : null;
    const chosen = tabs.some((tab) => tab.id === activeTab) ? activeTab : (tabs[0]?.id ?? null);
    return { tabs, activeTab: chosen };
  } catch {
    return null;
  }
}

export function serialiseLayout(layout: Layout): string {
  return JSON.stringify({ version: 1, ...layout });
}

function parseTab(value: unknown, seen: Set<string>, ids: Set<string>): Tab {
  if (!isRecord(value) || typeof value["id"] !== "string") throw new TypeError("not a tab");
  claim(ids, value["id"]);
  const root = parseNode(value["root"], seen, ids, 0);
  const sessions = sessionsOf(root);
  const active = sessions.find((session) => session === value["active"]) ?? sessions[0];
  if (active === undefined) throw new TypeError("a tab without a pane");
  return { id: value["id"], root, active };
}

function parseNode(value: unknown, seen: Set<string>, ids: Set<string>, depth: number): Node {
  if (!isRecord(value) || depth > 64) throw new TypeError("not a node");
  if (value["kind"] === "pane" && typeof value["session"] === "string") {
    claim(seen, value["session"]);
    return { kind: "pane", session: value["session"] };
  }
  const { kind, id, direction, ratio } = value;
  if (kind !== "split" || typeof id !== "string" || (direction !== "row" && direction !== "column")) {
    throw new TypeError("not a split");
  }
  claim(ids, id);
  return {
    kind: "split",
    id,
    direction,
    ratio: clampRatio(typeof ratio === "number" ? ratio : 0.5),
    first: parseNode(value["first"], seen, ids, depth + 1),
    second: parseNode(value["second"], seen, ids, depth + 1),
  };
}

function claim(names: Set<string>, name: string): void {
  if (names.has(name)) throw new TypeError(`"${name}" stands twice`);
  names.add(name);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function replaceTab(tabs: Tab[], tab: Tab): Tab[] {
  return tabs.map((each) => (each.id === tab.id ? tab : each));
}

function mapPane(node: Node, session: string, to: (pane: Pane) => Node): Node {
  if (node.kind === "pane") return node.session === session ? to(node) : node;
  return { ...node, first: mapPane(node.first, session, to), second: mapPane(node.second, session, to) };
}

function withoutPane(node: Node, session: string): Node | null {
  if (node.kind === "pane") return node.session === session ? null : node;
  const first = withoutPane(node.first, session);
  const second = withoutPane(node.second, session);
  if (first && second) return { ...node, first, second };
  return first ?? second;
}
