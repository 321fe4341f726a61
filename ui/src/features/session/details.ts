/** The adapter's book-keeping, sorted for drawing. Its keys are the adapter's own. */
export interface Details {
  /** The command that was launched, argument by argument. */
  argv: string[];
  /** Names of variables that did not reach the program. */
  withheld: string[];
  /** Durations by name. */
  timings: { name: string; ms: number }[];
  /** All the rest. */
  others: { name: string; value: string }[];
}

const ARGV = ["argv", "launchPlan", "plan"];
const WITHHELD = ["withheld", "withheldVariables", "withheldEnv"];
const TIMINGS = ["timings", "timingsMs"];

/** Sorts details into what the inspector draws apart, and the rest; nothing is left out. */
export function sortedDetails(details: Readonly<Record<string, unknown>>): Details {
  const sorted: Details = { argv: [], withheld: [], timings: [], others: [] };
  for (const [key, value] of Object.entries(details)) {
    if (ARGV.includes(key) && isStrings(value)) sorted.argv.push(...value);
    else if (WITHHELD.includes(key) && isStrings(value)) sorted.withheld.push(...value);
    else if (TIMINGS.includes(key) && isNumbers(value)) {
      sorted.timings.push(
        ...Object.entries(value).map(([name, ms]) => ({ name: words(name.replace(/Ms$/, "")), ms })),
      );
    } else if (value !== null && value !== undefined)
      sorted.others.push({ name: words(key), value: shown(value) });
  }
  return sorted;
}

/** `guardPath` and `guard_path` as `guard path`. */
export function words(key: string): string {
  return key
    .replace(/[_-]+/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase();
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (isStrings(value)) return value.join("\n");
  return JSON.stringify(value, null, 2);
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

function isNumbers(value: unknown): value is Record<string, number> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((each) => typeof each === "number")
  );
}
