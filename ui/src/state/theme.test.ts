import { expect, it } from "vitest";
import { lookOf } from "./theme";

it("a theme follows the desktop only where it is told to", () => {
  const looks = (["system", "light", "dark", "highContrast"] as const).map((theme) => [
    lookOf(theme, true),
    lookOf(theme, false),
  ]);
  expect(looks).toEqual([
    ["dark", "light"],
    ["light", "light"],
    ["dark", "dark"],
    ["contrast", "contrast"],
  ]);
});
