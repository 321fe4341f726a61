/** The window over the stand-in engine: `?scenario=NAME&theme=THEME`. */
import { FakeBackend } from "../../src/backend/fake";
import { wholeHistory } from "../../src/backend/interface";
import type { Theme } from "../../src/backend/generated";
import { mountApp } from "../../src/mount";
import {
  confirmClose,
  confirmLink,
  confirmPaste,
  confirmQuit,
  confirmRestart,
} from "../../src/shared/dialogs";
import { scenarios } from "./scenarios";

const asked = new URLSearchParams(location.search);
const scenario = scenarios[asked.get("scenario") ?? "empty"];
const target = document.getElementById("app");
if (!scenario || !target) throw new Error(`no scenario ${asked.get("scenario")}`);

const world = scenario();
const theme = asked.get("theme");
if (theme !== null) world.snapshot.settings = { ...world.snapshot.settings, theme: theme as Theme };

const fake = new FakeBackend(world);
Object.assign(window, {
  fake,
  wholeHistory,
  ask: { confirmClose, confirmLink, confirmPaste, confirmQuit, confirmRestart },
});
await mountApp(fake, target);
document.documentElement.dataset["mounted"] = "";
