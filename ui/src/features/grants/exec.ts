/** Folders whose programs may run, in words and to choose from: pure, so that it can be tested alone. */
import type { ExecStanding } from "../../backend/generated";

/**
 * The folders that would let a program run: its own, then those around it as far as the workspace
 * goes. Only its own where it lies outside of that.
 */
export function foldersOf(program: string, workspace: string): string[] {
  const own = parentOf(program);
  if (own === null) return [];
  const folders = [own];
  const root = workspace.endsWith("/") ? workspace.slice(0, -1) : workspace;
  if (root === "" || (own !== root && !own.startsWith(`${root}/`))) return folders;
  for (let folder = own; folder !== root;) {
    const parent = parentOf(folder);
    if (parent === null) break;
    folders.push(parent);
    folder = parent;
  }
  return folders;
}

function parentOf(path: string): string | null {
  const at = path.lastIndexOf("/");
  return at > 0 ? path.slice(0, at) : null;
}

export function standingWords(standing: ExecStanding): string {
  switch (standing) {
    case "inForce":
      return "in force";
    case "nextStart":
      return "from the next start";
    case "revoked":
      return "revoked, holds until the session ends";
    case "unusable":
      return "not in force";
  }
}
