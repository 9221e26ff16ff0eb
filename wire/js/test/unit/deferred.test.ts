/** Which calls of a saver may be answered before they are on disk. */
import { Annotation, Command, START, StateGraph, interrupt } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { Checkpoint } from "@langchain/langgraph-checkpoint";
import * as net from "node:net";
import { expect, test } from "vitest";
import { DiskFullError, InvalidArgumentError, SteleTimeoutError } from "../../src/errors.js";
import { SteleSaver } from "../../src/saver.js";
import { Fake } from "./fake.js";
import type { Asked } from "./fake.js";

const meta = { source: "loop", step: 0, parents: {} } as const;
const checkpoint = (id: string, x: unknown = 1): Checkpoint => ({ ...emptyCheckpoint(), id, channel_values: { x }, channel_versions: { x: 1 } });
const of = (id: string, ns = "", thread = "t"): object => ({ configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } });
const deferred = (asked: Asked): boolean => asked.params["defer_sync"] === true;

/** using gives a test a server that answers all, unless handle does, and a saver on it. */
async function using(
  body: (saver: SteleSaver, fake: Fake) => Promise<void>,
  options: { deferWrites?: boolean; timeout?: number } = {},
  handle: (asked: Asked) => boolean = () => false,
): Promise<void> {
  await using fake = await new Fake((asked) => void (handle(asked) || asked.answer(asked.method === "get" ? { tuple: null } : {}))).listen();
  await using saver = SteleSaver.fromUrl(fake.url, options);
  await body(saver, fake);
}

/** puts are the checkpoints that were put, a deferred one with a star. */
const puts = (fake: Fake): string[] =>
  fake.asked.filter(({ method }) => method === "put").map((asked) => `${(asked.params["checkpoint"] as Checkpoint).id}${deferred(asked) ? "*" : ""}`);

test.each([true, false])("writes of tasks that ended well are deferred: %s", (deferWrites) =>
  using(
    async (saver, fake) => {
      await saver.putWrites(of("1"), [["a", 1], ["b", 2]], "task");
      await saver.putWrites(of("1"), [["a", 1], ["__interrupt__", 2]], "task");
      for (const channel of ["__error__", "__resume__", "__scheduled__", "__error_source_node__"]) await saver.putWrites(of("1"), [[channel, 1]], "task");
      await saver.putWrites(of("1"), [["a", 1]], "00000000-0000-0000-0000-000000000000");
      expect(fake.asked.map(deferred)).toEqual([deferWrites, ...Array<boolean>(6).fill(false)]);
    },
    { deferWrites },
  ),
);

test.each([true, false])("a checkpoint that another follows is deferred: %s", (deferWrites) =>
  using(
    async (saver, fake) => {
      const put = (id: string, parent = "0", ns = ""): Promise<unknown> => saver.put(of(parent, ns), checkpoint(id), meta, {});
      const write = (id: string, channel = "a", ns = ""): Promise<void> => saver.putWrites(of(id, ns), [[channel, 1]], `task ${channel}`);
      await put("1");
      await write("2");
      await put("2"); // the run may have ended here
      await write("3");
      await write("3", "__interrupt__");
      await write("4", "__interrupt__");
      await put("3"); // nothing says that 4 is put
      await write("5");
      await write("6");
      await put("4"); // has no writes that say that the run went on
      await put("5"); // 6 follows
      await put("6");
      await put("5"); // now nothing does
      // The other way round: writes of what is there say nothing.
      for (const id of ["9", "8", "7"]) {
        await put(id);
        await write(id);
        await put(id);
      }
      // A run goes on from a checkpoint of another process, whose clock was ahead.
      for (const id of ["z", "zz", "y"]) await write(id);
      await put("y", "zz");
      // What another namespace does says nothing.
      await write("n1", "a", "one");
      await write("n2", "a", "two");
      await put("n1", "0", "one");
      // Two runs at once: what one has gone past is not what the other has.
      await write("zzz5");
      await write("zzz6");
      await put("zzz4");
      const found = puts(fake);
      expect(found.filter((id) => id.endsWith("*"))).toEqual(deferWrites ? ["5*"] : []);
      expect(found).toHaveLength(16);
    },
    { deferWrites },
  ),
);

test("a thread that is forgotten is synced", () =>
  using(async (saver, fake) => {
    await saver.putWrites(of("1"), [["a", 1]], "task");
    await saver.putWrites(of("2"), [["a", 1]], "task");
    for (let n = 0; n < 1024; n++) await saver.putWrites(of("1", "", `thread ${n}`), [["a", 1]], "task");
    await saver.put(of("0"), checkpoint("1"), meta, {});
    expect(puts(fake)).toEqual(["1"]);
  }));

test("a thread whose run goes on beside a thousand others is not forgotten", () =>
  using(async (saver, fake) => {
    for (const id of ["1", "2", "3"]) await saver.putWrites(of(id), [["a", 1]], "task");
    for (let n = 0; n < 1023; n++) await saver.putWrites(of("1", "", `thread ${n}`), [["a", 1]], "task");
    await saver.put(of("0"), checkpoint("1"), meta, {});
    await saver.putWrites(of("1", "", "one more"), [["a", 1]], "task");
    await expect(saver.put(of("1"), checkpoint("2", () => 1), meta, { x: 1 })).rejects.toThrow(InvalidArgumentError);
    expect(puts(fake)).toEqual(["1*"]);
    expect(fake.asked.at(-1)?.method).toBe("sync");
  }));

test("that a task has asked is not forgotten with its thread", () =>
  using(async (saver, fake) => {
    await saver.putWrites(of("5"), [["__interrupt__", 1]], "asks");
    for (let n = 0; n < 1024; n++) await saver.putWrites(of("1", "", `thread ${n}`), [["a", 1]], "task");
    for (const id of ["5", "6"]) await saver.putWrites(of(id), [["a", 1]], "task");
    expect(fake.asked.slice(-2).map(deferred)).toEqual([false, true]);
  }));

test.each([
  ["the put that follows is refused", new InvalidArgumentError("no"), true],
  ["the put that follows fails", "disk_full", true],
  ["the put that follows is not answered", "", false],
])("what was deferred is synced when %s", (_, how, synced) =>
  using(
    async (saver, fake) => {
      for (const id of ["1", "2", "3"]) await saver.putWrites(of(id), [["a", 1]], "task");
      await saver.put(of("0"), checkpoint("1"), meta, { x: 1 });
      const value = how instanceof Error ? (): void => {} : 1;
      const fails = how instanceof Error ? InvalidArgumentError : how === "" ? SteleTimeoutError : DiskFullError;
      await expect(saver.put(of("1"), checkpoint("2", value), meta, { x: 1 })).rejects.toThrow(fails);
      expect(fake.asked.filter(({ method }) => method === "sync")).toHaveLength(synced ? 1 : 0);
      // LangGraph may leave out the puts that should follow.
      for (const id of ["4", "5"]) await saver.putWrites(of(id), [["a", 1]], "task");
      await saver.put(of("2"), checkpoint("3"), meta, { x: 1 });
      await saver.put(of("3"), checkpoint("4"), meta, { x: 1 });
      expect(puts(fake).slice(-2)).toEqual(["3", "4"]);
    },
    { timeout: how === "" ? 3_000 : 60_000 },
    (asked) => {
      if (asked.method !== "put" || (asked.params["checkpoint"] as Checkpoint).id !== "2") return false;
      if (how !== "") asked.fail("disk_full");
      return true;
    },
  ),
);

test("a save that fails is reported when those beside it have ended, and are synced", () => {
  const held: Asked[] = [];
  return using(
    async (saver, fake) => {
      for (const id of ["1", "2", "3"]) await saver.putWrites(of(id), [["a", 1]], "task");
      // As LangGraph does, which ends a run at the first failure.
      const puts = saver.put(of("0"), checkpoint("1"), meta, {}).then(() => saver.put(of("1"), checkpoint("2"), meta, {}));
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
      let reported = false;
      const failures = [1, 2].map((n) => saver.putWrites(of("3"), [["a", () => n]], "another").finally(() => (reported = true)));
      await new Promise((resolve) => setTimeout(resolve, 20));
      held[0]?.answer({});
      while (held.length === 1) await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(reported).toBe(false);
      held[1]?.answer({});
      for (const { reason } of (await Promise.allSettled(failures)) as PromiseRejectedResult[]) expect(reason).toBeInstanceOf(InvalidArgumentError);
      await puts;
      // The second one was put when it was known that nothing may follow.
      expect(fake.asked.slice(3).map((asked) => [asked.method, deferred(asked)])).toEqual([["put", true], ["put", false]]);
    },
    {},
    (asked) => asked.method === "put" && held.push(asked) > 0,
  );
});

test("a deferred put that was under way when a save failed is synced", () => {
  const held: Asked[] = [];
  return using(
    async (saver, fake) => {
      for (const id of ["1", "2"]) await saver.putWrites(of(id), [["a", 1]], "task");
      const put = saver.put(of("0"), checkpoint("1"), meta, {});
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
      const failure = expect(saver.putWrites(of("2"), [["a", () => 1]], "another")).rejects.toThrow(InvalidArgumentError);
      held[0]?.answer({});
      await Promise.all([put, failure]);
      expect(fake.asked.slice(2).map((asked) => [asked.method, deferred(asked)])).toEqual([["put", true], ["sync", false]]);
    },
    {},
    (asked) => asked.method === "put" && held.push(asked) > 0,
  );
});

test.each([true, false])("the newest checkpoint is read when those are there that a run has gone past: %s", (deferWrites) => {
  const held: Asked[] = [];
  return using(
    async (saver, fake) => {
      for (const id of ["1", "2"]) await saver.putWrites(of(id), [["a", 1]], "task");
      const puts = ["1", "2", "3"].reduce((before, id) => before.then(() => saver.put(of("0"), checkpoint(id), meta, {})), Promise.resolve({}));
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
      const read = saver.getTuple({ configurable: { thread_id: "t" } });
      await saver.getTuple(of("1"));
      await saver.getTuple({ configurable: { thread_id: "another" } });
      for (let n = 0; n < 3; n++) {
        while (held.length === n) await new Promise((resolve) => setImmediate(resolve));
        await new Promise((resolve) => setTimeout(resolve, 10));
        expect(fake.asked.filter(({ method }) => method === "get")).toHaveLength(2);
        held[n]?.answer({});
      }
      await Promise.all([puts, read]);
      expect(fake.asked.slice(2).map(({ method, params }) => `${method} ${String(params["thread"])}`)).toEqual(
        ["put t", "get t", "get another", "put t", "put t", "get t"],
      );
      // A run that goes on is not waited for to its end.
      for (const id of ["4", "5"]) await saver.putWrites(of(id), [["a", 1]], "task");
      const later = saver.put(of("3"), checkpoint("7"), meta, {});
      const other = saver.getTuple({ configurable: { thread_id: "t" } });
      await saver.putWrites(of("8"), [["a", 1]], "task");
      held[3]?.answer({});
      const last = saver.put(of("7"), checkpoint("8"), meta, {});
      await other;
      held[4]?.answer({});
      await Promise.all([later, last]);
    },
    { deferWrites },
    (asked) => asked.method === "put" && held.push(asked) > 0,
  );
});

const ends = ["done", "asks", "fails", "asks beside another", "clashes with another", "stops before", "stops after", "runs out of steps", "is left", "cannot be saved"];

test.each(ends.flatMap((end) => [[end, "async"], [end, "sync"], [end, "exit"]] as const))(
  "the checkpoints of a run that %s are durable when it returns: %s",
  async (end, durability) => {
    // The first put is held until the run has gone as far as it goes without it.
    const held: (() => void)[] = [];
    let calls = 0;
    await using(
      async (saver, fake) => {
        const State = Annotation.Root({ n: Annotation<number>(), text: Annotation<unknown>() });
        const app = new StateGraph(State)
          .addNode("count", ({ n }) => new Command({ update: { n: n + 1 }, goto: n < 4 ? "count" : end.includes("another") ? ["final", "other"] : "final" }), { ends: ["count", "final", "other"] })
          .addNode("final", async () => {
            if (end.startsWith("asks")) return interrupt("?");
            if (end === "fails") throw new RangeError("bad");
            if (end === "is left") await new Promise((resolve) => setTimeout(resolve, 20));
            return end === "cannot be saved" ? { text: () => 1 } : { n: 9 };
          })
          .addNode("other", () => (end.startsWith("clashes") ? { n: 7 } : { text: "" }))
          .addEdge(START, "count")
          .compile({ checkpointer: saver, ...(end === "stops before" ? { interruptBefore: ["final"] } : end === "stops after" ? { interruptAfter: ["final"] } : {}) });
        const release = setInterval(() => {
          // Nothing has been asked for a while, so the run waits for the puts.
          if (calls === fake.asked.length) held.splice(0).forEach((answer) => answer());
          calls = fake.asked.length;
        }, 15);
        const config = { configurable: { thread_id: "t" }, durability, recursionLimit: end === "runs out of steps" ? 3 : 25, streamMode: "updates" as const };
        let error = "";
        try {
          for await (const chunk of await app.stream({ n: 0 }, config)) if (end === "is left" && "final" in chunk) break;
        } catch (failure) {
          error = (failure as Error).name;
        }
        const returned = fake.asked.filter(({ method }) => method !== "get");
        clearInterval(release);
        const want: Record<string, string> = { fails: "RangeError", "clashes with another": "InvalidUpdateError", "runs out of steps": "GraphRecursionError", "cannot be saved": "InvalidArgumentError" };
        expect(error).toBe(want[end] ?? "");
        if (end === "cannot be saved" && durability === "exit") return; // which puts once, at the end
        const last = returned.findLastIndex((asked) => asked.method === "put" && deferred(asked));
        expect(returned.some(({ method }) => method === "put")).toBe(true);
        expect(last >= 0, "a put was deferred").toBe(durability === "async" && end !== "cannot be saved");
        // A call that syncs is behind every deferred put.
        expect(last < 0 || returned.slice(last + 1).some((asked) => !deferred(asked))).toBe(true);
        // The last checkpoint was synced.
        expect(returned.findLast(({ method }) => method === "put")?.params["defer_sync"]).toBeUndefined();
      },
      {},
      (asked) => asked.method === "put" && durability === "async" && held.push(() => asked.answer({})) > 0,
    );
  },
);

test.each(["async", "sync", "exit"] as const)("what a task wrote beside one that asks is durable when the run returns: %s", (durability) =>
  using(async (saver, fake) => {
    // The other task ends when the question is saved, if it is.
    const asks = (): boolean => fake.asked.some(({ method, params }) => method === "put_writes" && JSON.stringify(params["writes"]).includes("__interrupt__"));
    const app = new StateGraph(Annotation.Root({ n: Annotation<number>(), text: Annotation<string>() }))
      .addNode("first", () => ({ n: interrupt<string, number>("?") }))
      .addNode("other", async () => {
        for (let n = 0; durability === "exit" ? n < 100 : !asks(); n++) await new Promise((resolve) => setImmediate(resolve));
        await new Promise((resolve) => setTimeout(resolve, 20)); // the checkpoints before are there
        return { text: "kept" };
      })
      .addEdge(START, "first")
      .addEdge(START, "other")
      .compile({ checkpointer: saver });
    expect(await app.invoke({ n: 0 }, { configurable: { thread_id: "t" }, durability })).toHaveProperty("__interrupt__");
    const saved = fake.asked.filter(({ method }) => method !== "get");
    expect(asks() && JSON.stringify(saved.map(({ params }) => params["writes"]))).toContain("text");
    const last = saved.findLastIndex(deferred);
    expect(saved.slice(last + 1).filter((asked) => !deferred(asked))).not.toEqual([]);
  }),
);

test("a checkpoint at which a task has asked is not deferred, whatever another run has gone past", () =>
  using(async (saver, fake) => {
    for (const id of ["1", "2", "9"]) await saver.putWrites(of(id), [["a", 1]], "task");
    await saver.putWrites(of("2"), [["__interrupt__", 1]], "another");
    await saver.put(of("0"), checkpoint("1"), meta, {});
    await saver.put(of("1"), checkpoint("2"), meta, {});
    expect(puts(fake)).toEqual(["1*", "2"]);
  }));

test.each(["", "unsupported", "disk_full"])("a task's writes that are under way when another asks are synced: %s", (failure) => {
  const held: Asked[] = [];
  return using(
    async (saver, fake) => {
      const writes = saver.putWrites(of("1"), [["a", 1]], "task");
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
      await saver.putWrites(of("1"), [["__interrupt__", 1]], "another");
      held[0]?.answer({});
      if (failure === "disk_full") await expect(writes).rejects.toThrow(DiskFullError);
      else await writes; // a store without sync defers nothing
      expect(fake.asked.map((asked) => [asked.method, deferred(asked)])).toEqual([["put_writes", true], ["put_writes", false], ["sync", false]]);
    },
    {},
    (asked) => {
      if (asked.method === "sync" && failure) asked.fail(failure);
      return (asked.method === "sync" && failure !== "") || (asked.method === "put_writes" && deferred(asked) && held.push(asked) > 0);
    },
  );
});

test.each([[undefined, false], [true, true], [false, false]])("a server that may lose its power alone: %s", (deferWrites, defers) =>
  using(async (_, fake) => {
    const proxy = net.createServer((socket) => {
      const to = net.connect(fake.url.slice("unix:".length));
      for (const end of [socket, to]) end.on("error", () => {});
      socket.pipe(to).pipe(socket);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    try {
      await using saver = SteleSaver.fromUrl(`tcp:127.0.0.1:${(proxy.address() as net.AddressInfo).port}`, deferWrites === undefined ? {} : { deferWrites });
      for (const id of ["1", "2"]) await saver.putWrites(of(id), [["a", 1]], "task");
      await saver.put(of("0"), checkpoint("1"), meta, {});
      expect(fake.asked.map(deferred)).toEqual(Array<boolean>(3).fill(defers));
    } finally {
      proxy.close();
    }
  }),
);
