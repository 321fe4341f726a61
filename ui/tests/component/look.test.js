import { test } from "node:test";
import { NOON, picture, useBrowser, withWindow, changeTheme, assertAccessible } from "./support.js";
useBrowser();
for (const [name, tab, prep] of [
  ["network", "Activity"],
  ["network-rules", "Network"],
  ["prompt-one", "Activity"],
  ["prompt-several", "Activity"],
  ["prompt-hostile", "Activity"],
  ["prompt-missed", "Activity"],
  ["network-empty", "Activity"],
  ["network-many", "Activity"],
  ["network-off", "Network"],
])
  test(name, () =>
    withWindow(name, { theme: "dark", now: NOON }, async (page) => {
      await page.getByRole("tab", { name: tab }).click();
      await page.waitForTimeout(700);
      await picture(page, `look-${name}-dark`);
      await assertAccessible(page);
      await changeTheme(page, "light");
      await page.waitForTimeout(300);
      await picture(page, `look-${name}-light`);
      await assertAccessible(page, ["color-contrast"]);
    }),
  );
