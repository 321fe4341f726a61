import { describe, expect, it } from "vitest";
import {
  activeSession,
  emptyLayout,
  focusSession,
  MIN_RATIO,
  openTab,
  parseLayout,
  reconcile,
  removeSession,
  replaceSession,
  selectTab,
  serialiseLayout,
  sessionsOf,
  setRatio,
  splitPane,
  stepPane,
  stepTab,
  type Layout,
} from "./layout";

function panes(layout: Layout): string[][] {
  return layout.tabs.map((tab) => sessionsOf(tab.root));
}

const two = openTab(openTab(emptyLayout, "a"), "b");
const split = splitPane(splitPane(two, "b", "c", "row"), "c", "d", "column");

describe("tabs", () => {
  it("open after the tab in view, and are in view", () => {
    const layout = openTab(selectTab(two, "t1"), "c");
    expect(panes(layout)).toEqual([["a"], ["c"], ["b"]]);
    expect(activeSession(layout)).toBe("c");
  });

  it("are not opened twice for one session", () => {
    const layout = openTab(two, "a");
    expect(panes(layout)).toEqual([["a"], ["b"]]);
    expect(activeSession(layout)).toBe("a");
  });

  it("are stepped through round and round", () => {
    expect(activeSession(stepTab(two, 1))).toBe("a");
    expect(activeSession(stepTab(two, -1))).toBe("a");
    expect(activeSession(stepTab(stepTab(two, 1), -1))).toBe("b");
    expect(stepTab(emptyLayout, 1)).toBe(emptyLayout);
  });

  it("that are not there cannot be selected", () => {
    expect(selectTab(two, "t9")).toBe(two);
  });
});

describe("splits", () => {
  it("nest, with the new pane second and in focus", () => {
    expect(panes(split)).toEqual([["a"], ["b", "c", "d"]]);
    expect(activeSession(split)).toBe("d");
    const root = split.tabs[1]?.root;
    expect(root).toMatchObject({
      kind: "split",
      direction: "row",
      second: { kind: "split", direction: "column" },
    });
  });

  it("beside a session without a pane open a tab", () => {
    expect(panes(splitPane(two, "z", "c", "row"))).toEqual([["a"], ["b"], ["c"]]);
  });

  it("have panes that are stepped through in reading order", () => {
    expect(activeSession(stepPane(split, 1))).toBe("b");
    expect(activeSession(stepPane(split, -1))).toBe("c");
    expect(stepPane(emptyLayout, 1)).toBe(emptyLayout);
  });

  it("keep a ratio that leaves room for both", () => {
    const id = "s1";
    const ratio = (layout: Layout) => {
      const root = layout.tabs[1]?.root;
      return root?.kind === "split" ? root.ratio : undefined;
    };
    expect(ratio(setRatio(split, id, 0.3))).toBe(0.3);
    expect(ratio(setRatio(split, id, -4))).toBe(MIN_RATIO);
    expect(ratio(setRatio(split, id, 7))).toBe(1 - MIN_RATIO);
    expect(ratio(setRatio(split, id, Number.NaN))).toBe(0.5);
  });
});

describe("removing a session", () => {
  it("gives its room to its sibling and its focus to the pane that takes its place", () => {
    const layout = removeSession(split, "d");
    expect(panes(layout)).toEqual([["a"], ["b", "c"]]);
    expect(activeSession(layout)).toBe("c");
  });

  it("keeps the focus where it is when another pane goes", () => {
    expect(activeSession(removeSession(split, "b"))).toBe("d");
  });

  it("takes an empty tab away and goes to its neighbour", () => {
    const layout = removeSession(two, "b");
    expect(panes(layout)).toEqual([["a"]]);
    expect(activeSession(layout)).toBe("a");
    expect(removeSession(layout, "a")).toEqual(emptyLayout);
  });

  it("that is in no pane changes nothing", () => {
    expect(removeSession(two, "z")).toBe(two);
  });
});

describe("a restarted session", () => {
  it("stands where the old one stood", () => {
    const layout = replaceSession(focusSession(split, "c"), "c", "e");
    expect(panes(layout)).toEqual([["a"], ["b", "e", "d"]]);
    expect(activeSession(layout)).toBe("e");
  });

  it("under its own id changes nothing", () => {
    expect(replaceSession(split, "c", "c")).toBe(split);
  });
});

describe("a saved layout", () => {
  it("comes back as it was", () => {
    expect(parseLayout(serialiseLayout(split))).toEqual(split);
  });

  it("loses panes whose session is gone, and gains tabs for live sessions without one", () => {
    const layout = reconcile(split, ["b", "d", "x", "y"], ["b", "d", "x"]);
    expect(panes(layout)).toEqual([["b", "d"], ["x"]]);
    expect(activeSession(layout)).toBe("d");
  });

  it("of sessions that are all gone is empty", () => {
    expect(reconcile(split, [], [])).toEqual(emptyLayout);
  });

  it.each([
    ["nothing", null],
    ["no JSON", "{"],
    ["another version", JSON.stringify({ version: 2, tabs: [] })],
    ["no tabs", JSON.stringify({ version: 1 })],
    ["a tab without a pane", JSON.stringify({ version: 1, tabs: [{ id: "t1", root: {} }] })],
    [
      "one session in two panes",
      JSON.stringify({
        version: 1,
        tabs: ["t1", "t2"].map((id) => ({ id, root: { kind: "pane", session: "a" }, active: "a" })),
      }),
    ],
    [
      "a split without a direction",
      JSON.stringify({ version: 1, tabs: [{ id: "t", root: { kind: "split", id: "s", ratio: 0.5 } }] }),
    ],
  ])("that is %s is not taken", (_name, json) => {
    expect(parseLayout(json)).toBeNull();
  });

  it("whose tab in view is unknown shows the first", () => {
    const json = JSON.stringify({ version: 1, ...two, activeTab: "t9" });
    expect(parseLayout(json)?.activeTab).toBe("t1");
  });
});
