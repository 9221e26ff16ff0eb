/** What LangGraph's suite does not ask of a saver, beside LangGraph's own in memory. */
import { AIMessage } from "@langchain/core/messages";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { DeltaSnapshot, JsonPlusSerializer, MemorySaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { BaseCheckpointSaver, CheckpointMetadata, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { InvalidArgumentError, SteleSaver, SteleSerializer, ThreadDeletedError, UnreadableValueError } from "langgraph-checkpoint-stele";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { directory } from "./servers.js";

const at = (thread_id: string): { configurable: Record<string, unknown> } => ({ configurable: { thread_id, checkpoint_ns: "" } });
const meta = (more: object): CheckpointMetadata => ({ source: "loop", step: 0, parents: {}, ...more });

async function all(saver: BaseCheckpointSaver, config: object, options: object): Promise<CheckpointTuple[]> {
  const found = [];
  for await (const tuple of saver.list(config, options)) found.push(tuple);
  return found;
}

test("values, metadata and filters are those of the saver in memory", async () => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  const model = new MemorySaver();
  const circular: Record<string, unknown> = { a: 1 };
  circular["self"] = circular;
  const values = {
    nothing: null,
    undef: undefined,
    text: "é😀\u0000",
    bytes: new Uint8Array([0, 255]),
    list: [1, 2.5, -7, 2 ** 53 - 1, true],
    nested: { set: new Set([1]), map: new Map([["a", 1]]), pattern: /a+/g, error: new Error("bad"), bytes: new Uint8Array([1]), none: undefined },
    message: new AIMessage({ content: "hi", id: "1" }),
    snapshot: new DeltaSnapshot([1]),
    date: new Date(0),
    numbers: [NaN, Infinity, -0, 0.1],
    holes: [undefined, , null],
    sets: new Map<unknown, unknown>([[new Set([undefined]), new Date(1)]]),
    object: new (class A { a = 1; b = () => 1; #c = 1; get c() { return this.#c; } })(),
    errors: [Object.assign(new TypeError("e"), { response: { json: () => 1 } }), Object.assign(/a/g, { f: () => 1, s: [Symbol("s")] })],
    boxed: [Object(1), Object("a"), new Float64Array([0.5]), new URL("http://a/")],
    circular,
    matches: ["2026-11".match(/(\d+)-/), /b/.exec("abc"), [..."abab".matchAll(/a/g)], "abab".match(/a/g)],
    said: "[unable to serialize, circular reference is too complex to analyze]",
    frozen: Object.freeze({ a: Object.freeze([1]) }),
    empty: [{}, [], new Map(), new Set(), new Error(""), Object.create(null), new Float64Array(0)],
  };
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 3]));
  const seen = { "": { text: 1 }, "node é": { list: 2 } };
  for (const each of [saver, model]) {
    for (const [n, more] of [{ user: "ada", deep: { a: [1, { b: null }] } }, { user: undefined, set: new Set([1]) }, { half: 0.5, big: 2 ** 53 - 1 }].entries()) {
      const checkpoint = { ...emptyCheckpoint(), id: `c${n}`, ts: "2026-01-01T00:00:00Z", channel_values: values, channel_versions: versions, versions_seen: seen };
      const config = await each.put(at("t"), checkpoint, meta(more), versions);
      await each.putWrites(config, [["x", values.nested], ["y", undefined], ["__error__", "bad"]], `task${n}`, "~b");
      await each.putWrites(config, [["x", "again"], ["__error__", "worse"]], `task${n}`, "~b");
      await each.putWrites(config, [["x", 1]], "zzz", "~a");
    }
  }
  for (const options of [{}, { limit: 2 }, { limit: 0 }, { before: { configurable: { checkpoint_id: "c2" } } }, { filter: { user: "ada" } }, { filter: { half: 0.5 } }, { filter: { step: 1 } }]) {
    expect(await all(saver, at("t"), options), JSON.stringify(options)).toEqual(await all(model, at("t"), options));
  }
  for (const config of [at("t"), { configurable: { thread_id: "t", checkpoint_id: "c1" } }, { configurable: { thread_id: "t", thread_ts: "c0" } }]) {
    const [got, want] = [await saver.getTuple(config), await model.getTuple(config)];
    expect({ ...got, config: 0 }).toEqual({ ...want, config: 0 });
  }
  expect((await all(saver, at("t"), { filter: { user: undefined, half: 0.5 } })).map((tuple) => tuple.checkpoint.id)).toEqual(["c2"]);
  expect(await saver.getTuple({ configurable: { thread_id: 7 } })).toBeUndefined();
  expect(await saver.getDeltaChannelHistory({ config: at("none"), channels: ["x"] })).toEqual({ x: { writes: [] } });
  expect(await saver.getDeltaChannelHistory({ config: {}, channels: ["x"] })).toEqual({ x: { writes: [] } });
});

test("what LangGraph's serializer would lose is refused before anything is stored", async () => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  const kept = await saver.put(at("t"), { ...emptyCheckpoint(), id: "c0" }, meta({}), {});
  const circular: Record<string, unknown> = { f: () => 1 };
  circular["self"] = circular;
  const looped = new Map<string, unknown>();
  looped.set("self", looped);
  const frozen: Record<string, unknown> = { a: 1 };
  frozen["self"] = frozen;
  Object.freeze(frozen);
  const nested = (depth: number, wrap: (inner: unknown) => unknown = (inner) => ({ inner })): unknown => {
    let value: unknown = 1;
    for (let n = 0; n < depth; n++) value = wrap(value);
    return value;
  };
  const lost: Record<string, unknown> = {
    "a function": () => 1,
    "a symbol": Symbol("s"),
    "a function of an object": { deep: [{ f: () => 1 }] },
    "a function beside a circle": { circular },
    "a symbol of a list": [Symbol("s")],
    "a symbol of a class": new (class A { s = Symbol("s"); })(),
    "a function of a field of a class": new (class A { field = { f: () => 1 }; })(),
    "a function in a map": new Map([["a", () => 1]]),
    "a function as a key of a map": new Map([[() => 1, 1]]),
    "a function in a set": new Set([() => 1]),
    "a function in a message": new AIMessage({ content: "", additional_kwargs: { f: () => 1 } }),
    "a function in a snapshot": new DeltaSnapshot([() => 1]),
    "a function that toJSON returns": { toJSON: () => () => 1 },
    "a symbol as a key": { a: { [Symbol("key")]: 1 } },
    "a symbol as a key of a list": Object.assign([], { [Symbol("key")]: 1 }),
    "a symbol as a key of a map": Object.assign(new Map(), { [Symbol("key")]: 1 }),
    "a property of a list": Object.assign([1], { more: 1 }),
    "a property of a map": { map: Object.assign(new Map([["a", 1]]), { more: 1 }) },
    "a property of a set": Object.assign(new Set([1]), { more: 1 }),
    "an index of a set": Object.assign(new Set([1]), { 0: 1 }),
    "a bigint": { a: 1n },
    "a match with named groups": "2026".match(/(?<year>\d+)/),
    "a list that looks like a match": Object.assign([1], { index: 0, input: "", more: 1 }),
    "a buffer": new ArrayBuffer(4),
    "a view of a buffer": new DataView(new ArrayBuffer(4)),
    "a promise": [Promise.resolve(1)],
    "an iterator": new Map([["a", [1].values()]]),
    "a generator": (function* () {})(),
    ...("toJSON" in URLSearchParams.prototype ? {} : { "parameters of a URL": new URLSearchParams("a=1") }), // bun has it
    "private fields": new (class A { #a = 1; get a() { return this.#a; } })(),
    "a Map of another realm": runInNewContext("new Map([[1, 2]])"),
    "a key that changes the prototype": { a: JSON.parse('{"__proto__": {"a": 1}}') as object },
    "a Map inside itself": looped,
    "what is nested too deeply": nested(100_000),
    "a list that is nested too deeply": { a: nested(100_000, (inner) => [inner]) },
    "a Map that is nested too deeply": nested(100_000, (inner) => new Map([["a", inner]])),
    "a frozen circle": frozen,
    "a property that throws": { get a(): number { throw new RangeError("bad"); } },
  };
  for (const [what, value] of Object.entries(lost)) {
    const checkpoint = { ...emptyCheckpoint(), id: "c1", channel_values: { good: 1, x: value }, channel_versions: { good: 1, x: 1 } };
    await expect(saver.put(kept, checkpoint, meta({}), { good: 1, x: 1 }), what).rejects.toThrow(InvalidArgumentError);
    await expect(saver.put(kept, { ...emptyCheckpoint(), id: "c1" }, meta({ value }), {}), what).rejects.toThrow(InvalidArgumentError);
    await expect(saver.putWrites(kept, [["good", 1], ["x", value]], "task"), what).rejects.toThrow(InvalidArgumentError);
  }
  expect((await all(saver, at("t"), {})).map((tuple) => [tuple.checkpoint.id, tuple.pendingWrites])).toEqual([["c0", []]]);
}, 600_000); // bun takes its time to find the end of its stack

test("an id with half of a character is refused, and shares no thread with another", async () => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  for (const rest of ["", "a".repeat(60)]) {
    const [one, other] = [at(`\ud800${rest}`), at(`\udbff${rest}`)];
    for (const config of [one, other, { configurable: { thread_id: "t", checkpoint_ns: `\udc00${rest}` } }]) {
      const refused = { name: "InvalidArgumentError", message: expect.stringMatching(/^(thread_id|checkpoint_ns) has half of a character/) as string };
      await expect(saver.put(config, emptyCheckpoint(), meta({}), {})).rejects.toMatchObject(refused);
      await expect(saver.getTuple(config)).rejects.toMatchObject(refused);
      await expect(all(saver, config, {})).rejects.toMatchObject(refused);
    }
    await expect(saver.deleteThread(`\ud800${rest}`)).rejects.toThrow("thread_id has half of a character");
    await expect(saver.copyThread("t", `\ud800${rest}`)).rejects.toThrow("the id of the target thread has half of a character");
  }
  expect(await all(saver, {}, {})).toEqual([]);
});

test("a value that LangGraph's serializer cannot read back is an UnreadableValueError", async () => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await using other = SteleSaver.fromDir(dir, { idleExit: 500, serde: new JsonPlusSerializer() });
  const value = { lc: 1, type: "constructor", id: ["a"], kwargs: {} };
  const checkpoint = { ...emptyCheckpoint(), id: "c", channel_values: { value }, channel_versions: { value: 1 } };
  await expect(saver.put(at("t"), checkpoint, meta({}), { value: 1 })).rejects.toThrow(InvalidArgumentError);
  await other.put(at("t"), checkpoint, meta({}), { value: 1 });
  await expect(saver.getTuple(at("t"))).rejects.toThrow(UnreadableValueError);
});

test.each(["async", "sync", "exit"] as const)("a thread that was deleted begins anew: %s", async (durability) => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  const sum = { reducer: (a: number[], b: number[]): number[] => a.concat(b), default: (): number[] => [] };
  const app = new StateGraph(Annotation.Root({ n: Annotation<number[]>(sum) }))
    .addNode("a", () => ({ n: [1] }))
    .addNode("b", () => ({ n: [2] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .compile({ checkpointer: saver });
  for (let time = 0; time < 5; time++) {
    expect(await app.invoke({ n: [0] }, { ...at("t"), durability })).toEqual({ n: [0, 1, 2] });
    const found = (await all(saver, at("t"), {})).map(({ checkpoint }) => checkpoint.channel_values["n"] ?? []);
    expect(found).toEqual(durability === "exit" ? [[0, 1, 2]] : [[0, 1, 2], [0, 1], [0], []]);
    await saver.deleteThread("t");
    expect(await saver.getTuple(at("t"))).toBeUndefined();
  }
  await expect(saver.putWrites({ configurable: { thread_id: "t", checkpoint_id: "c" } }, [["n", [1]]], "task")).rejects.toThrow(ThreadDeletedError);
});

test("a serializer of one's own has all values, and the store reads the metadata", async () => {
  class Reversed extends JsonPlusSerializer {
    override async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
      const [type, data] = await super.dumpsTyped(value);
      return [`${type}+reversed`, data.toReversed()];
    }
    override async loadsTyped(type: string, data: Uint8Array): Promise<unknown> {
      return super.loadsTyped(type.replace("+reversed", ""), data.toReversed());
    }
  }
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500, serde: new Reversed() });
  const checkpoint = { ...emptyCheckpoint(), id: "c", channel_values: { x: { secret: 1 } }, channel_versions: { x: 1 } };
  const config = await saver.put(at("t"), checkpoint, meta({ user: "ada" }), { x: 1 });
  await saver.putWrites(config, [["x", "later"]], "task");
  const [tuple] = await all(saver, at("t"), { filter: { user: "ada" } });
  expect([tuple?.checkpoint.channel_values, tuple?.pendingWrites]).toEqual([{ x: { secret: 1 } }, [["task", "x", "later"]]]);
  await using other = SteleSaver.fromDir(dir, { idleExit: 500 });
  await expect(other.getTuple(at("t"))).rejects.toThrow(/json\+reversed/);
});

test("functions and symbols are refused, or left out as the saver in memory leaves them out", async () => {
  const values: Record<string, unknown> = {
    tool: { name: "search", run: () => 1, [Symbol("kept")]: 1, nested: { f: () => 2, n: 1 } },
    list: [() => 1, Symbol("s"), 2, { f: () => 1 }],
    map: new Map<unknown, unknown>([["f", () => 1]]),
    set: new Set<unknown>([() => 1, 1]),
    whole: () => 1,
    symbol: Symbol("s"),
  };
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
  const checkpoint = { ...emptyCheckpoint(), id: "c", channel_values: values, channel_versions: versions };
  const dir = directory();
  await using strict = SteleSaver.fromDir(dir, { idleExit: 500 });
  for (const [name, value] of Object.entries(values)) {
    const one = { ...checkpoint, channel_values: { [name]: value }, channel_versions: { [name]: 1 } };
    await expect(strict.put(at("t"), one, meta({}), { [name]: 1 })).rejects.toThrow(/dropFunctions: true|use a string/);
  }
  await expect(strict.put(at("t"), emptyCheckpoint(), meta({ given: () => 1 }), {})).rejects.toThrow(/dropFunctions: true/);
  await using saver = SteleSaver.fromDir(dir, { serde: new SteleSerializer({ dropFunctions: true }), idleExit: 500 });
  const model = new MemorySaver();
  for (const one of [saver, model]) {
    await one.put(at("t"), checkpoint, meta({ given: { f: () => 1, n: 1 } }), versions);
    await one.putWrites({ configurable: { ...at("t").configurable, checkpoint_id: "c" } }, [["a", { f: () => 1, n: 1 }]], "task");
  }
  const [ours, theirs] = [await saver.getTuple(at("t")), await model.getTuple(at("t"))];
  expect(ours?.checkpoint.channel_values).toEqual(theirs?.checkpoint.channel_values);
  expect(ours?.pendingWrites).toEqual(theirs?.pendingWrites);
  expect(ours?.metadata).toEqual(theirs?.metadata);
  expect(ours?.checkpoint.channel_values["tool"]).toEqual({ name: "search", nested: { n: 1 } });
});
