import type { RowStatus } from "../../backend/generated";

export function statusWord(status: RowStatus): string {
  switch (status) {
    case "ok":
      return "found";
    case "partial":
      return "in part";
    case "missing":
      return "missing";
    case "info":
      return "";
  }
}
