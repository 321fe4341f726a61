/** Keyboard focus: what can take it, keeping it inside, moving it through a list. */

const FOCUSABLE = [
  "a[href]",
  "button:not(:disabled)",
  "input:not(:disabled)",
  "select:not(:disabled)",
  "textarea:not(:disabled)",
  '[tabindex]:not([tabindex="-1"])',
].join(",");

function isTabStop(element: HTMLElement): boolean {
  if (element.tabIndex < 0 || element.getClientRects().length === 0) return false;
  if (element instanceof HTMLInputElement && element.type === "radio" && !element.checked) {
    // Only the checked radio of a group is a stop, or the first enabled one when none is checked.
    const group = [
      ...(element.form ?? element.ownerDocument).querySelectorAll<HTMLInputElement>(
        `input[type="radio"][name="${CSS.escape(element.name)}"]:not(:disabled)`,
      ),
    ];
    return !group.some((radio) => radio.checked) && group[0] === element;
  }
  return true;
}

/** The elements that Tab visits inside `root`, in document order. */
export function tabStops(root: HTMLElement): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(FOCUSABLE)].filter(isTabStop);
}

/** Wraps Tab and Shift+Tab at the ends of `root`. */
export function keepTabInside(root: HTMLElement, event: KeyboardEvent): void {
  if (event.key !== "Tab" || event.ctrlKey || event.altKey || event.metaKey) return;
  const stops = tabStops(root);
  const first = stops[0];
  const last = stops.at(-1);
  if (first === undefined || last === undefined) {
    event.preventDefault();
    return;
  }
  const active = document.activeElement;
  if (!(active instanceof HTMLElement) || !root.contains(active) || active === root) {
    event.preventDefault();
    (event.shiftKey ? last : first).focus();
  } else if (!event.shiftKey && active === last) {
    event.preventDefault();
    first.focus();
  } else if (event.shiftKey && active === first) {
    event.preventDefault();
    last.focus();
  }
}

/** The index that an arrow, Home or End key leads to in a list of `count`, or undefined. */
export function nextIndex(key: string, index: number, count: number): number | undefined {
  if (count === 0) return undefined;
  switch (key) {
    case "ArrowDown":
      return (index + 1) % count;
    case "ArrowUp":
      return (index - 1 + count) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}
