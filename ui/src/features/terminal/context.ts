import { getContext, setContext } from "svelte";
import type { TerminalHost } from "./host.svelte";

const KEY = Symbol("terminals");

export function setHost(host: TerminalHost): void {
  setContext(KEY, host);
}

export function getHost(): TerminalHost {
  return getContext<TerminalHost>(KEY);
}
