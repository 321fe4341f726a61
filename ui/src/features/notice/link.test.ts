import { expect, test } from "vitest";
import { linkView } from "./link";

test("a plain https address stands as it is, with its host apart", () => {
  expect(linkView("https://example.org:8443/a?b=c#d")).toEqual({
    opens: true,
    before: "https://",
    host: "example.org:8443",
    after: "/a?b=c#d",
    warnings: [],
  });
});

test.each(["file:///etc/passwd", "vscode://x", "javascript:alert(1)", "data:text/html,x", "mailto:a@b.c"])(
  "%s is not opened",
  (url) => {
    expect(linkView(url).opens).toBe(false);
  },
);

test("what is no address is not opened", () => {
  expect(linkView("not an address").opens).toBe(false);
});

test.each([
  ["http://example.org/", "Not encrypted"],
  ["https://bank.example@evil.example/", "user name"],
  ["https://аpple.com/", "encoded form"],
  ["https://203.0.113.20/", "bare address"],
  ["https://[2001:db8::1]/", "bare address"],
])("%s comes with a warning", (url, words) => {
  const view = linkView(url);
  expect(view.opens && view.warnings.some((warning) => warning.includes(words))).toBe(true);
});

test("a look-alike host is shown in its encoded form", () => {
  const view = linkView("https://аpple.com/");
  expect(view.opens && view.host).toBe("xn--pple-43d.com");
});

test("the host after a user name stands apart", () => {
  const view = linkView("https://bank.example:pw@evil.example/");
  expect(view.opens && view.host).toBe("evil.example");
});
