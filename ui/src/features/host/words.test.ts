import { expect, test } from "vitest";
import { verdictParts } from "./words";

test.each([
  [
    "agent sandbox ON: bubblewrap, namespace isolation, no kernel boundary",
    "agent sandbox ON",
    "bubblewrap, namespace isolation, no kernel boundary",
  ],
  ["agent sandbox ON — bubblewrap", "agent sandbox ON", "bubblewrap"],
  ["agent sandbox DISABLED by --sandbox off", "agent sandbox DISABLED by --sandbox off", ""],
  [
    "no OS-native agent sandbox on this host: install socat",
    "no OS-native agent sandbox on this host",
    "install socat",
  ],
  ["something else", "something else", ""],
])("%s", (line, head, rest) => {
  expect(verdictParts({ state: "on", line })).toEqual({ head, rest });
});
