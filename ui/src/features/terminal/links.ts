const MOST_CHARS = 4096;

/**
 * The address of a link that may be offered for opening, with its host in punycode; null for every
 * other. Only http and https: nothing that a program prints starts another application.
 */
export function webAddress(text: string): string | null {
  // Control characters and blanks would be dropped silently while parsing: such a link lies.
  if (
    text.length > MOST_CHARS ||
    /[\u0000-\u0020\u007f-\u00a0\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/.test(text)
  ) {
    return null;
  }
  if (!/^https?:\/\/[^/]/i.test(text)) return null;
  try {
    const url = new URL(text);
    const isWeb = url.protocol === "http:" || url.protocol === "https:";
    return isWeb && url.hostname !== "" ? url.href : null;
  } catch {
    return null;
  }
}
