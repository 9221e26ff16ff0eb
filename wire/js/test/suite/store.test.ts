/** The long-term store, beside LangGraph's own in memory. */
import { HumanMessage } from "@langchain/core/messages";
import { InMemoryStore, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { BaseStore } from "@langchain/langgraph-checkpoint";
import { InvalidArgumentError, SteleSaver, SteleStore } from "langgraph-checkpoint-stele";
import { expect, test } from "vitest";
import { random } from "../unit/random.js";
import { directory, kill } from "./servers.js";

const labels = ["a", "b", "c"];
const keys = ["k1", "k2", "k3", "k4"];

test("a store answers as LangGraph's in memory does, also when its server is killed", async () => {
  const { next, seed } = random();
  const pick = <T>(from: T[]): T => from[Math.floor(next() * from.length)] as T;
  const namespace = (): string[] => Array.from({ length: 1 + Math.floor(next() * 3) }, () => pick(labels));
  const dir = directory();
  await using store = SteleStore.fromDir(dir, { idleExit: 500 });
  const model = new InMemoryStore();
  let kills = 0;
  for (let n = 0; n < 400; n++) {
    if (n % 10 === 9 && kill(dir)) kills++;
    const kind = next();
    const [ns, key, value] = [namespace(), pick(keys), { n, color: pick(["red", "blue"]), deep: { list: [1, "x", null, true] } }];
    if (kind < 0.4) await both(store, model, (each) => each.put(ns, key, value), seed);
    else if (kind < 0.5) {
      await both(store, model, (each) => each.delete(ns, key), seed);
      // The one in memory goes on listing namespaces without items; no store on disk does.
      const { data } = model as unknown as { data: Map<string, Map<string, unknown>> };
      for (const [name, items] of data) if (items.size === 0) data.delete(name);
    }
    else if (kind < 0.7) await both(store, model, (each) => each.get(ns, key), seed);
    else if (kind < 0.85) {
      const filter = pick([undefined, { color: "red" }, { n: { $gt: n / 2 } }, { color: { $ne: "red" } }]);
      await both(store, model, (each) => each.search(ns.slice(0, 2), { ...(filter && { filter }), limit: 1000 }), seed);
    } else {
      const options = pick([{}, { prefix: [pick(labels)] }, { suffix: [pick(labels)] }, { maxDepth: 2 }, { prefix: ["*", pick(labels)] }]);
      await both(store, model, (each) => each.listNamespaces(options), seed);
    }
  }
  expect(kills, seed).toBeGreaterThan(20);
});

/** both asks both stores and compares: items without their times, and listings in any order. */
async function both(store: BaseStore, model: BaseStore, ask: (each: BaseStore) => Promise<unknown>, seed: string): Promise<void> {
  const [got, want] = [simple(await ask(store)), simple(await ask(model))];
  expect(got, seed).toEqual(want);
}

function simple(answer: unknown): unknown {
  if (Array.isArray(answer)) {
    const named = answer.map((one: unknown): [string, unknown] => {
      const { namespace, key } = one as Record<string, unknown>;
      return [JSON.stringify(Array.isArray(one) ? one : [namespace, key]), Array.isArray(one) ? one : simple(one)];
    });
    return Object.fromEntries(named);
  }
  if (typeof answer === "object" && answer !== null && "createdAt" in answer) {
    const { createdAt, updatedAt, ...rest } = answer as Record<string, unknown>;
    expect(createdAt).toBeInstanceOf(Date);
    expect(Number(updatedAt)).toBeGreaterThanOrEqual(Number(createdAt));
    return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined).sort());
  }
  return answer;
}

test("a batch is answered in order, from one state", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  await store.put(["a"], "k", { v: 1 });
  const answers = await store.batch([
    { namespace: ["a"], key: "k", value: { v: 2 } },
    { namespace: ["a"], key: "k" },
    { namespacePrefix: ["a"] },
    { limit: 10, offset: 0 },
    { namespace: ["b"], key: "k", value: { v: 3 } },
  ] as const as never);
  expect(answers).toMatchObject([undefined, { value: { v: 1 } }, [{ key: "k", value: { v: 1 } }], [["a"]], undefined]);
  expect((await store.get(["a"], "k"))?.value).toEqual({ v: 2 });
  expect((await store.get(["b"], "k"))?.value).toEqual({ v: 3 });
  expect(await store.batch([])).toEqual([]);
  expect([await store.search([], { limit: 0 }), await store.listNamespaces({ limit: 0 })]).toEqual([[], []]);
});

test("what a store cannot do is an error that says so", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  await expect(store.search(["a"], { query: "cats" })).rejects.toThrow(InvalidArgumentError);
  await expect(store.search(["a"], { query: "cats" })).rejects.toThrow(/leave out query/);
  expect(await store.search(["a"], { query: "" })).toEqual([]);
  await expect(store.put(["a.b"], "k", {})).rejects.toThrow(/period/);
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  await expect(store.put(["a"], "k", cycle)).rejects.toThrow(InvalidArgumentError);
  expect(JSON.stringify({ store })).toBe('{"store":"[SteleStore]"}');
});

test("numbers beyond 2^53 stay numbers, in items, filters and metadata", async () => {
  const dir = directory();
  await using store = SteleStore.fromDir(dir, { idleExit: 500 });
  const numbers = { a: 2 ** 53 + 2, b: 12345678901234567890, c: -(2 ** 60), d: 1e300, e: 5e-324, f: 1234567890123456.5, g: "1234567890123456789", h: [2 ** 63] };
  await store.put(["n"], "k", numbers);
  expect((await store.get(["n"], "k"))?.value).toEqual(numbers);
  expect(await store.search(["n"], { filter: { a: 2 ** 53 + 2 } })).toHaveLength(1);
  for (const n of [123, "1234567890123456", 1234567890123456]) {
    const deep = JSON.parse(`${'{"a":'.repeat(300)}${JSON.stringify(n)}${"}".repeat(300)}`) as Record<string, unknown>;
    await store.put(["n"], "deep", deep);
    expect((await store.get(["n"], "deep"))?.value).toEqual(deep);
  }
  expect(await store.search(["n"], { filter: { a: { $gt: 2 ** 53 + 4 } } })).toHaveLength(0);
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  const metadata = { source: "loop", step: 1, parents: {}, ...numbers } as const;
  const config = await saver.put({ configurable: { thread_id: "t" } }, emptyCheckpoint(), metadata, {});
  expect((await saver.getTuple(config))?.metadata).toEqual(metadata);
  const found = [];
  for await (const { checkpoint } of saver.list({}, { filter: { b: 12345678901234567890 } })) found.push(checkpoint.id);
  expect(found).toHaveLength(1);
});

test("an item that cannot come back is refused, and does not hide others", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  const lost: unknown[] = [[1], "text", 1, undefined, { a: "\ud800" }, { "\udc00": 1 }, { a: [JSON.parse('{"__proto__": {"a": 1}}')] }];
  for (const value of lost) {
    await expect(store.put(["n"], "lost", value as Record<string, unknown>), JSON.stringify(value)).rejects.toThrow(InvalidArgumentError);
  }
  const error = { lc: 2, type: "constructor", id: ["Error"], method: null, args: ["boom"], kwargs: {} };
  const values = {
    looks: { lc: 1, type: "constructor", id: ["a"], kwargs: {} },
    undefined: { lc: 2, type: "undefined" },
    error,
    deep: { a: [{ error }, { lc: 2, type: "constructor", id: ["Set"], args: [[1]] }] },
    message: { at: new HumanMessage("hi") },
    whole: { text: "é😀\u0000" },
  };
  for (const [key, value] of Object.entries(values)) await store.put(["n"], key, value);
  const found = await store.search(["n"]);
  expect(Object.fromEntries(found.map(({ key, value }) => [key, value]))).toEqual(values);
});

test("a namespace or a key with half of a character is refused", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  for (const rest of ["", "a".repeat(60)]) {
    await expect(store.put(["n", `\ud800${rest}`], "k", {})).rejects.toThrow("namespace has half of a character");
    await expect(store.put(["n"], `\ud800${rest}`, {})).rejects.toThrow("key has half of a character");
    await expect(store.get(["n"], `\ud800${rest}`)).rejects.toThrow("key has half of a character");
    await expect(store.search([`\ud800${rest}`])).rejects.toThrow("prefix has half of a character");
  }
  expect(await store.search(["n"])).toEqual([]);
});

test("a filter by undefined does not find everything", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  await store.put(["n"], "hers", { user: "ada" });
  await store.put(["n"], "nobody's", { user: null });
  await store.put(["n"], "old", {});
  const found = await store.search(["n"], { filter: { user: undefined } });
  expect(found.map(({ key }) => key).toSorted()).toEqual(["nobody's", "old"]);
});
