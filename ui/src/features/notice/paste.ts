import { visibleText } from "../../shared/visible";

const MOST_LINES = 40;
const LONGEST_LINE = 2000;

export interface PasteLines {
  /** Lines of the whole text; a line end after the last one starts none. */
  count: number;
  shown: string[];
  /** Lines that are not shown. */
  rest: number;
  /** Something in what is shown would not have been visible. */
  hidden: boolean;
}

/** The text as the question shows it. */
export function pasteLines(text: string): PasteLines {
  const all = text.split(/\r\n|\r|\n/);
  if (all.length > 1 && all.at(-1) === "") all.pop();
  const first = all.slice(0, MOST_LINES);
  const shown = first.map((line) => {
    const cut = line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
    // A tab is no surprise in pasted text.
    return cut.split("\t").map(visibleText).join("\t");
  });
  const hidden = first.some((line) => {
    const plain = line.replaceAll("\t", "");
    return visibleText(plain) !== plain;
  });
  return { count: all.length, shown, rest: all.length - first.length, hidden };
}
