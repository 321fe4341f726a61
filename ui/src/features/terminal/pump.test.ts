import { describe, expect, it } from "vitest";
import type { OutputChunk } from "../../backend/interface";
import { HIGH_BYTES, LOW_BYTES, OutputPump, PIECE_BYTES, type Clock } from "./pump";

/** An engine that holds a stream, and a terminal that parses when it is told to. */
class Bench {
  readonly produced: number[] = [];
  ended = false;
  firstHeld = 0;
  failNext = 0;
  mostPerAnswer = 128 * 1024;
  readonly asked: number[] = [];
  readonly written: number[] = [];
  readonly told: string[] = [];
  timers: { ms: number; then: () => void }[] = [];
  autoParse = false;
  #parsed: (() => void)[] = [];
  #waiting: (() => void) | undefined;
  inFlight = 0;
  mostInFlight = 0;
  readonly pump: OutputPump;

  constructor(from = 0) {
    const clock: Clock = {
      after: (ms, then) => {
        const timer = { ms, then };
        this.timers.push(timer);
        return () => (this.timers = this.timers.filter((each) => each !== timer));
      },
    };
    this.pump = new OutputPump(
      {
        read: (offset) => this.#read(offset),
        write: (bytes, parsed) => {
          this.written.push(...bytes);
          if (this.autoParse) parsed();
          else this.#parsed.push(parsed);
        },
        lost: (missing) => this.told.push(`lost ${missing}`),
        caughtUp: () => this.told.push("caught up"),
        ended: () => this.told.push("ended"),
        failing: (reason) => this.told.push(reason === undefined ? "works" : `failing: ${String(reason)}`),
        wedged: () => this.told.push("wedged"),
      },
      from,
      clock,
    );
  }

  async #read(from: number): Promise<OutputChunk> {
    this.asked.push(from);
    this.inFlight += 1;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    if (this.failNext > 0) {
      this.failNext -= 1;
      this.inFlight -= 1;
      throw "gone";
    }
    if (from >= this.produced.length && !this.ended) {
      await new Promise<void>((resolve) => (this.#waiting = resolve));
    }
    this.inFlight -= 1;
    const offset = Math.max(from, this.firstHeld);
    const bytes = Uint8Array.from(this.produced.slice(offset, offset + this.mostPerAnswer));
    return { offset, head: this.produced.length, ended: this.ended, truncated: offset > from, bytes };
  }

  print(count: number): void {
    for (let n = 0; n < count; n += 1) this.produced.push(this.produced.length % 251);
    this.#waiting?.();
  }

  end(): void {
    this.ended = true;
    this.#waiting?.();
  }

  /** Parses the oldest `pieces`, or all. */
  parse(pieces = Number.POSITIVE_INFINITY): void {
    for (const parsed of this.#parsed.splice(0, pieces)) parsed();
  }

  fire(): void {
    const timers = this.timers;
    this.timers = [];
    for (const { then } of timers) then();
  }
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

describe("the output pump", () => {
  it("carries every byte once and in order, with one read in flight", async () => {
    const bench = new Bench();
    bench.autoParse = true;
    bench.print(300_000);
    bench.pump.start();
    bench.pump.start();
    await settle();
    bench.print(5);
    await settle();
    bench.end();
    await settle();
    expect(bench.written).toEqual(bench.produced);
    expect(bench.mostInFlight).toBe(1);
    expect(bench.told).toEqual(["caught up", "ended"]);
  });

  it("asks for nothing while the terminal is behind, and again once it has caught up", async () => {
    const bench = new Bench();
    bench.print(4 * HIGH_BYTES);
    bench.pump.start();
    await settle();
    expect(bench.pump.unparsed).toBe(HIGH_BYTES);
    const asked = bench.asked.length;
    bench.parse((HIGH_BYTES - LOW_BYTES) / PIECE_BYTES - 1);
    await settle();
    expect(bench.asked).toHaveLength(asked);
    bench.parse(1);
    await settle();
    expect(bench.asked.length).toBeGreaterThan(asked);
    expect(bench.pump.unparsed).toBeLessThanOrEqual(HIGH_BYTES);
  });

  it("acknowledges no more than it has handed over", async () => {
    const bench = new Bench();
    bench.print(1000);
    bench.pump.start();
    await settle();
    expect(bench.asked).toEqual([0, 1000]);
    expect(bench.pump.next).toBe(1000);
  });

  it("tells how much the scrollback has lost, and goes on with what there is", async () => {
    const bench = new Bench();
    bench.print(100);
    bench.firstHeld = 40;
    bench.pump.start();
    await settle();
    expect(bench.told).toEqual(["lost 40"]);
    expect(bench.written).toEqual(bench.produced.slice(40));
  });

  it("is caught up only when what stood there at the start is parsed", async () => {
    const bench = new Bench();
    bench.mostPerAnswer = 60;
    bench.print(100);
    bench.pump.start();
    await settle();
    bench.parse(1);
    expect(bench.told).toEqual([]);
    bench.parse();
    expect(bench.told).toEqual(["caught up"]);
  });

  it("is caught up at once where nothing stood", async () => {
    const bench = new Bench();
    bench.pump.start();
    bench.end();
    await settle();
    expect(bench.told).toEqual(["caught up", "ended"]);
  });

  it("ends only when the last byte is parsed", async () => {
    const bench = new Bench();
    bench.print(10);
    bench.end();
    bench.pump.start();
    await settle();
    expect(bench.told).toEqual([]);
    bench.parse();
    expect(bench.told).toEqual(["caught up", "ended"]);
    expect(bench.timers).toEqual([]);
  });

  it("tries again after a failure, later each time, and tells when it works again", async () => {
    const bench = new Bench();
    bench.autoParse = true;
    bench.print(3);
    bench.failNext = 6;
    bench.pump.start();
    const waits: (number | undefined)[] = [];
    for (let n = 0; n < 6; n += 1) {
      await settle();
      waits.push(bench.timers[0]?.ms);
      bench.fire();
    }
    await settle();
    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 4000]);
    expect(bench.told).toEqual([...Array<string>(6).fill("failing: gone"), "works", "caught up"]);
    expect(bench.written).toEqual(bench.produced);
  });

  it("tries again at once when it is poked, and reads no second time beside a read in flight", async () => {
    const bench = new Bench();
    bench.failNext = 1;
    bench.pump.start();
    await settle();
    expect(bench.asked).toEqual([0]);
    bench.pump.poke();
    bench.pump.poke();
    await settle();
    expect(bench.asked).toEqual([0, 0]);
    expect(bench.mostInFlight).toBe(1);
    expect(bench.timers).toEqual([]);
  });

  it("notices a terminal that no longer parses", async () => {
    const bench = new Bench();
    bench.print(100_000);
    bench.pump.start();
    await settle();
    bench.parse(1);
    bench.fire();
    expect(bench.told).toEqual(["wedged"]);
    // Too late: the pump has stopped, and what comes now changes nothing.
    bench.parse();
    await settle();
    expect(bench.told).toEqual(["wedged"]);
  });

  it("watches only while there is something to parse", async () => {
    const bench = new Bench();
    bench.print(10);
    bench.pump.start();
    await settle();
    expect(bench.timers).toHaveLength(1);
    bench.parse();
    expect(bench.timers).toEqual([]);
  });

  it("does nothing more once stopped", async () => {
    const bench = new Bench();
    bench.pump.start();
    bench.pump.stop();
    bench.print(10);
    await settle();
    expect(bench.written).toEqual([]);
    expect(bench.asked).toEqual([0]);
  });
});
