/** A function that runs at once, and then at most once in so many milliseconds; the last call counts. */
export function throttle(run: () => void, everyMs: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const turn = (): void => {
    timer = undefined;
    if (!again) return;
    again = false;
    call();
  };
  const call = (): void => {
    if (timer !== undefined) {
      again = true;
      return;
    }
    timer = setTimeout(turn, everyMs);
    run();
  };
  return {
    call,
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
      again = false;
    },
  };
}
