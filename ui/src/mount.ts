// First: what is imported below reads it.
import "./language";
import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "@xterm/xterm/css/xterm.css";
import "./shared/theme.css";
import { mount, unmount } from "svelte";
import AppView from "./App.svelte";
import Failed from "./features/session/Failed.svelte";
import { problemOf, type Backend } from "./backend/interface";
import { App } from "./state/app.svelte";

/** Draws the window over a backend; resolves to the function that takes it down again. */
export async function mountApp(backend: Backend, target: HTMLElement): Promise<() => Promise<void>> {
  await stylesLoaded();
  let app: App;
  try {
    app = await App.start(backend);
  } catch (thrown) {
    const failed = mount(Failed, { target, props: { problem: problemOf(thrown) } });
    return () => unmount(failed);
  }
  const view = mount(AppView, { target, props: { app } });
  return async () => {
    app.stop();
    await unmount(view);
  };
}

/**
 * A terminal reads its colours and measures its cells when it is made; some web views run scripts
 * before the style sheets and fonts are there.
 */
async function stylesLoaded(): Promise<void> {
  const sheets = [...document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')];
  const loaded = sheets.map((link) => {
    if (link.sheet) return undefined;
    return new Promise<void>((resolve) => {
      link.addEventListener("load", () => resolve());
      link.addEventListener("error", () => resolve());
    });
  });
  await Promise.all(loaded);
  const weights = ["400", "700"].map((weight) =>
    document.fonts.load(`${weight} 13px "JetBrains Mono Variable"`),
  );
  await Promise.allSettled(weights);
}
