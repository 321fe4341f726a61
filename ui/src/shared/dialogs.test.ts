import { get } from "svelte/store";
import { afterEach, expect, test } from "vitest";
import { answer, answerAllNo, confirmClose, confirmLink, confirmPaste, currentQuestion } from "./dialogs";

const process = { pid: 1, command: "make", foreground: true };

afterEach(answerAllNo);

function id(): number {
  return get(currentQuestion)?.id ?? 0;
}

test("questions wait their turn", async () => {
  const first = confirmPaste("a\nb");
  const second = confirmLink("https://example.org/");
  expect(get(currentQuestion)?.question.kind).toBe("paste");
  answer(id(), true);
  expect(get(currentQuestion)?.question.kind).toBe("link");
  answer(id(), false);
  expect(get(currentQuestion)).toBeUndefined();
  expect(await Promise.all([first, second])).toEqual([true, false]);
});

test("an answer to an earlier question does not answer the next one", async () => {
  const first = confirmPaste("a");
  const stale = id();
  answer(stale, true);
  const second = confirmPaste("b");
  answer(stale, true);
  expect(get(currentQuestion)?.question).toEqual({ kind: "paste", text: "b" });
  answer(id(), false);
  expect([await first, await second]).toEqual([true, false]);
});

test("closing what runs nothing asks nothing", async () => {
  expect(await confirmClose([])).toBe(true);
  expect(get(currentQuestion)).toBeUndefined();
});

test("a window that goes away answers no", async () => {
  const asked = confirmClose([process]);
  answerAllNo();
  expect(await asked).toBe(false);
});
