/** The lists of a session's network policy, sorted for drawing. Pure. */
import type { ListEntry, Source } from "../../backend/generated";

export interface EntryGroup {
  source: Source;
  group: string;
  entries: ListEntry[];
}

/** Entries by source and group, in the order in which the engine lists them. */
export function entryGroups(entries: readonly ListEntry[]): EntryGroup[] {
  const groups = new Map<string, EntryGroup>();
  for (const entry of entries) {
    const key = `${entry.source} ${entry.group}`;
    const group = groups.get(key);
    if (group) group.entries.push(entry);
    else groups.set(key, { source: entry.source, group: entry.group, entries: [entry] });
  }
  return [...groups.values()];
}
