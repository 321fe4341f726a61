import type { ISearchDecorationOptions } from "@xterm/addon-search";
import type { ITheme } from "@xterm/xterm";

const BUNDLED = '"JetBrains Mono Variable", ui-monospace, monospace';

/** Reads a colour token as `#rrggbb`, the only form that the terminal takes everywhere. */
function token(style: CSSStyleDeclaration, name: string): string {
  const value = style.getPropertyValue(name).trim();
  return /^#[0-9a-f]{3}$/i.test(value)
    ? `#${[...value.slice(1)].map((digit) => digit + digit).join("")}`
    : value;
}

/** The terminal's colours, from the theme in force. */
export function terminalTheme(root: Element = document.documentElement): ITheme {
  const style = getComputedStyle(root);
  const of = (name: string) => token(style, `--${name}`);
  return {
    background: of("bg"),
    foreground: of("text"),
    cursor: of("text"),
    cursorAccent: of("bg"),
    selectionBackground: of("selection"),
    scrollbarSliderBackground: `${of("text-3")}40`,
    scrollbarSliderHoverBackground: `${of("text-3")}80`,
    scrollbarSliderActiveBackground: `${of("text-3")}a0`,
    overviewRulerBorder: "#00000000",
    black: of("ansi-black"),
    red: of("ansi-red"),
    green: of("ansi-green"),
    yellow: of("ansi-yellow"),
    blue: of("ansi-blue"),
    magenta: of("ansi-magenta"),
    cyan: of("ansi-cyan"),
    white: of("ansi-white"),
    brightBlack: of("ansi-bright-black"),
    brightRed: of("ansi-bright-red"),
    brightGreen: of("ansi-bright-green"),
    brightYellow: of("ansi-bright-yellow"),
    brightBlue: of("ansi-bright-blue"),
    brightMagenta: of("ansi-bright-magenta"),
    brightCyan: of("ansi-bright-cyan"),
    brightWhite: of("ansi-bright-white"),
  };
}

export function findColours(root: Element = document.documentElement): ISearchDecorationOptions {
  const style = getComputedStyle(root);
  return {
    matchBackground: token(style, "--find"),
    activeMatchBackground: token(style, "--find-active"),
    matchOverviewRuler: token(style, "--find-active"),
    activeMatchColorOverviewRuler: token(style, "--accent"),
  };
}

/** The font list for a family that the user named; empty stands for the bundled one. */
export function fontStack(family: string): string {
  const name = family.replace(/["\\;{}<>]/g, "").trim();
  return name === "" ? BUNDLED : `"${name}", ${BUNDLED}`;
}
