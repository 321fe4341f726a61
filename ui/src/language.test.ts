import { expect, test } from "vitest";
import { usableLanguage } from "./language";

test("a language is kept, and the name of the POSIX locale is none", () => {
  expect(["en-GB", "de", "C", "C.UTF-8", "", "POSIX"].map(usableLanguage)).toEqual([
    "en-GB",
    "de",
    "en",
    "en",
    "en",
    "posix",
  ]);
  // `posix` is odd but well-formed: a format can be made of it.
  expect(new Intl.NumberFormat(usableLanguage("POSIX")).format(1)).toBe("1");
});
