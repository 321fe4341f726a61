import { tauriBackend } from "./backend/tauri";
import { mountApp } from "./mount";

const target = document.getElementById("app");
if (!target) throw new Error("the page has no place for the window");
await mountApp(tauriBackend, target);
