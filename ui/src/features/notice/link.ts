import { visibleText } from "../../shared/visible";

export type LinkView =
  | {
      opens: true;
      /** The address in three runs, so that the host can stand out. */
      before: string;
      host: string;
      after: string;
      /** What a hurried reader would miss. */
      warnings: string[];
    }
  | { opens: false; shown: string; reason: string };

/** What the question shows of an address; only http and https ones can be opened. */
export function linkView(address: string): LinkView {
  const shown = visibleText(address);
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return { opens: false, shown, reason: "This is not a complete address." };
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return { opens: false, shown, reason: `Only http and https links are opened, not ${url.protocol}` };
  }
  const user = url.username === "" && url.password === "" ? "" : `${url.username}:…@`;
  const warnings: string[] = [];
  if (url.protocol === "http:") warnings.push("Not encrypted: others on the way can read and change it.");
  if (user !== "") warnings.push("A user name stands before the host: what follows the @ is where it leads.");
  if (/(^|\.)xn--/.test(url.hostname)) {
    warnings.push("The host has letters beyond ASCII and is shown in its encoded form.");
  }
  if (/^[\d.]+$|^\[/.test(url.hostname)) warnings.push("The host is a bare address, without a name.");
  return {
    opens: true,
    before: `${url.protocol}//${user}`,
    host: url.host,
    after: visibleText(`${url.pathname}${url.search}${url.hash}`),
    warnings,
  };
}
