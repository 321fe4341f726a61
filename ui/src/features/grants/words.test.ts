import { describe, expect, test } from "vitest";
import { NO_GRANTS, requestedGrants, unfinishedGrants } from "./words";

// REQ EG-12
describe("grants of the sheet", () => {
  test("nothing is granted that nobody asked for", () => {
    expect(requestedGrants(NO_GRANTS)).toEqual({ portForwards: [], socketGrants: [] });
    expect(unfinishedGrants(NO_GRANTS)).toBeUndefined();
  });

  test("ports stand alone or with the one here, sockets one a line, the agent by itself", () => {
    const choice = {
      portsIn: "3000, 5173:8080",
      portsOut: " 5432\n6379:6380 ",
      agent: true,
      sockets: "/run/a b.sock\n\n /run/c.sock ",
    };
    expect(unfinishedGrants(choice)).toBeUndefined();
    expect(requestedGrants(choice)).toEqual({
      portForwards: [
        { direction: "in", guestPort: 3000, hostPort: 3000 },
        { direction: "in", guestPort: 5173, hostPort: 8080 },
        { direction: "out", guestPort: 5432, hostPort: 5432 },
        { direction: "out", guestPort: 6379, hostPort: 6380 },
      ],
      socketGrants: [{ hostPath: "ssh-agent" }, { hostPath: "/run/a b.sock" }, { hostPath: "/run/c.sock" }],
    });
  });

  test("what is no port and no whole path is named", () => {
    for (const wrong of ["0", "65536", "3000:", "http", "1:2:3", "-1"]) {
      expect(unfinishedGrants({ ...NO_GRANTS, portsIn: wrong })).toContain(`“${wrong}”`);
      expect(unfinishedGrants({ ...NO_GRANTS, portsOut: `3000 ${wrong}` })).toContain(`“${wrong}”`);
    }
    expect(unfinishedGrants({ ...NO_GRANTS, sockets: "x.sock" })).toContain("“x.sock”");
  });
});
