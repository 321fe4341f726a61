import { visibleText } from "../../shared/visible";

/** A title longer than this is cut. */
export const MOST_CHARS = 120;

/**
 * The title that a program gave, as plain text: nothing in it is invisible or reorders, runs of
 * blanks are one, and it is cut so that it cannot push anything aside.
 */
export function shownTitle(title: string): string {
  const flat = visibleText(title.slice(0, 4 * MOST_CHARS))
    .replace(/\s+/gu, " ")
    .trim();
  const chars = [...flat];
  return chars.length > MOST_CHARS ? `${chars.slice(0, MOST_CHARS - 1).join("")}…` : flat;
}
