/**
 * The browser's language, made one that can be used, before any library asks for it. Under the POSIX
 * locale WebKit says `C`, which is no language tag: uPlot, which makes a number format of it as it
 * loads, would take the whole window with it.
 */

/** The tag when it is one (BCP 47), else English, the language of the window. */
export function usableLanguage(tag: string): string {
  try {
    return Intl.getCanonicalLocales(tag)[0] ?? "en";
  } catch {
    return "en";
  }
}

if (typeof navigator !== "undefined" && usableLanguage(navigator.language) !== navigator.language) {
  Object.defineProperty(navigator, "language", { value: usableLanguage(navigator.language) });
}
