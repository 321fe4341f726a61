/** Rules by where they hold. Pure. */
import type { RuleInfo, SessionInfo } from "../../backend/generated";

export interface RulePlace {
  key: string;
  workspace: string;
  /** The session's name, for rules of one session. */
  session: string | null;
  rules: RuleInfo[];
}

/** One entry a workspace and a session, workspaces first, each in the order of its oldest rule. */
export function rulesByPlace(
  rules: readonly RuleInfo[],
  sessions: readonly Pick<SessionInfo, "id" | "title">[],
): RulePlace[] {
  const places = new Map<string, RulePlace>();
  for (const rule of rules) {
    const { sessionId, workspace } = rule;
    const key = sessionId === null ? `workspace ${workspace}` : `session ${sessionId}`;
    const title = sessions.find((session) => session.id === sessionId)?.title;
    const place = places.get(key) ?? {
      key,
      workspace,
      session: sessionId === null ? null : (title ?? sessionId),
      rules: [],
    };
    place.rules.push(rule);
    places.set(key, place);
  }
  const all = [...places.values()];
  return [...all.filter((place) => place.session === null), ...all.filter((place) => place.session !== null)];
}
