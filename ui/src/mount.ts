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
  // A terminal measures its cells once: with the right font or not at all.
  await Promise.allSettled(
    ["400", "700"].map((weight) => document.fonts.load(`${weight} 13px "JetBrains Mono Variable"`)),
  );
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
