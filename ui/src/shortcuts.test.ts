import { describe, expect, it } from "vitest";
import { commandFor, commands, type Chord } from "./shortcuts";

const chord = (key: string, held: Partial<Chord> = {}): Chord => ({
  key,
  ctrlKey: true,
  metaKey: false,
  shiftKey: true,
  altKey: false,
  ...held,
});

describe("shortcuts", () => {
  it.each([
    ["N", "session.new"],
    ["P", "palette.open"],
    ["D", "split.right"],
    ["E", "split.down"],
    ["ArrowRight", "pane.next"],
    ["ArrowLeft", "pane.previous"],
    ["F", "pane.find"],
    ["C", "pane.copy"],
    ["V", "pane.paste"],
    ["I", "inspector.toggle"],
    ["J", "prompt.queue"],
    ["Y", "prompt.allow"],
    ["U", "prompt.deny"],
    ["+", "zoom.in"],
  ])("Ctrl+Shift+%s is %s", (key, command) => {
    expect(commandFor(chord(key), false)).toBe(command);
    expect(commandFor(chord(key, { ctrlKey: false, metaKey: true }), true)).toBe(command);
  });

  it.each([
    ["=", "zoom.in"],
    ["+", "zoom.in"],
    ["-", "zoom.out"],
    ["0", "zoom.reset"],
  ])("Ctrl+%s is %s", (key, command) => {
    expect(commandFor(chord(key, { shiftKey: false }), false)).toBe(command);
  });

  it("leaves every other plain Ctrl key to the terminal", () => {
    const keys = [..."abcdefghijklmnopqrstuvwxyz[]\\,./123456789", "ArrowRight", "PageUp", "PageDown"];
    expect(keys.filter((key) => commandFor(chord(key, { shiftKey: false }), false) !== null)).toEqual([]);
  });

  it("leaves keys with Alt, and the other system's lead key, alone", () => {
    expect(commandFor(chord("N", { altKey: true }), false)).toBeNull();
    expect(commandFor(chord("N", { ctrlKey: false, metaKey: true }), false)).toBeNull();
    expect(commandFor(chord("N"), true)).toBeNull();
  });

  it("stand for one command each", () => {
    const keys = commands.flatMap((command) => command.keys ?? []);
    expect(new Set(keys).size).toBe(keys.length);
    expect(new Set(commands.map((command) => command.id)).size).toBe(commands.length);
  });

  it("lead to their command, all of them", () => {
    for (const { id, keys } of commands) {
      if (keys === undefined) continue;
      const key = keys.endsWith("++") ? "+" : (keys.split("+").at(-1) ?? "");
      const name = { "→": "ArrowRight", "←": "ArrowLeft" }[key] ?? key;
      expect(commandFor(chord(name, { shiftKey: keys.includes("Shift") }), false)).toBe(id);
    }
  });
});
