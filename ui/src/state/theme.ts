import type { Theme } from "../backend/generated";

/** The three looks that the tokens know. */
export type Look = "light" | "dark" | "contrast";

export function lookOf(theme: Theme, desktopIsDark: boolean): Look {
  switch (theme) {
    case "light":
      return "light";
    case "dark":
      return "dark";
    case "highContrast":
      return "contrast";
    case "system":
      return desktopIsDark ? "dark" : "light";
  }
}

const DARK = "(prefers-color-scheme: dark)";

/** Puts the theme on the page, and again whenever the desktop changes its mind; returns the undoing. */
export function applyTheme(theme: Theme, applied: () => void): () => void {
  const query = matchMedia(DARK);
  const apply = () => {
    document.documentElement.dataset["theme"] = lookOf(theme, query.matches);
    applied();
  };
  apply();
  query.addEventListener("change", apply);
  return () => query.removeEventListener("change", apply);
}
