const OPEN = "\u001b[200~";
const CLOSE = "\u001b[201~";

/** More than one line: a shell would run all but the last at once. */
export function isMultiline(text: string): boolean {
  return /[\r\n]/.test(text.replace(/[\r\n]+$/, "")) || /[\r\n]./s.test(text);
}

/**
 * A line break at the very end runs what was pasted, also when it is a single line; it counts unless
 * the program brackets pastes.
 */
export function needsQuestion(text: string, bracketed: boolean): boolean {
  return isMultiline(text) || (!bracketed && /[\r\n]$/.test(text));
}

/**
 * What is sent for a paste. Line breaks become Return as when typed; every other control character
 * is drawn as its picture, so that a paste can neither press keys nor close its own brackets.
 */
export function pasteData(text: string, bracketed: boolean): string {
  const body = text
    .replace(/\r\n?|\n/g, "\r")
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, picture);
  return bracketed ? `${OPEN}${body}${CLOSE}` : body;
}

function picture(control: string): string {
  const code = control.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
}
