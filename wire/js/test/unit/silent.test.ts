// A server that takes what is said and says nothing, or stops in the middle: whatever is asked of it, the call
// ends with an error that says so.
import { expect, test } from "vitest";
import { SteleConnectionError, SteleError, SteleSaver, SteleStore, SteleTimeoutError } from "../../src/index.js";
import { Fake, frame } from "./fake.js";
import type { Asked } from "./fake.js";

const here = { configurable: { thread_id: "t", checkpoint_ns: "" } };
const at = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "1" } };
const checkpoint = { v: 4, id: "1", ts: "2026-01-01T00:00:00.000Z", channel_values: {}, channel_versions: {}, versions_seen: {} };

async function all(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

/** calls are all that ask the server. */
const calls: Record<"saver", Record<string, (saver: SteleSaver) => Promise<unknown>>> & Record<"store", Record<string, (store: SteleStore) => Promise<unknown>>> = {
  saver: {
    copyThread: (s) => s.copyThread("t", "u"),
    deleteForRuns: (s) => s.deleteForRuns(["r"]),
    deleteThread: (s) => s.deleteThread("t"),
    erase: (s) => s.erase(["t"]),
    get: (s) => s.get(here),
    getDeltaChannelHistory: (s) => s.getDeltaChannelHistory({ config: at, channels: ["c"] }),
    getTuple: (s) => s.getTuple(here),
    list: (s) => all(s.list(here)),
    prune: (s) => s.prune(["t"]),
    put: (s) => s.put(here, checkpoint, { source: "input", step: -1, parents: {} }, {}),
    putWrites: (s) => s.putWrites(at, [["c", 1]], "task"),
    setup: (s) => s.setup(),
    sync: (s) => s.sync(),
    threads: (s) => all(s.threads()),
  },
  store: {
    batch: (s) => s.batch([{ namespace: ["a"], key: "k" }]),
    delete: (s) => s.delete(["a"], "k"),
    get: (s) => s.get(["a"], "k"),
    listNamespaces: (s) => s.listNamespaces({}),
    put: (s) => s.put(["a"], "k", { n: 1 }),
    search: (s) => s.search(["a"]),
    setup: (s) => s.setup(),
  },
};

/** half sends the beginning of an answer. */
const half = ({ socket, id }: Asked, result: unknown): void => {
  const sent = frame([1, id, null, result]);
  socket.write(sent.subarray(0, sent.length >> 1));
};

const ways: Record<string, { hello?: (asked: Asked) => void; call: (asked: Asked) => void }> = {
  hello: { hello: () => {}, call: () => {} },
  "within hello": { hello: (asked) => half(asked, { protocol: 1 }), call: () => {} },
  call: { call: () => {} },
  "within an answer": { call: (asked) => half(asked, { tuple: null }) },
  "within a listing": { call: (asked) => asked.items([]) },
};

for (const [name, way] of Object.entries(ways)) {
  test(`every call ends when the server is silent: ${name}`, async () => {
    const fake = new Fake(way.call);
    fake.greet = way.hello;
    await fake.listen();
    const options = { timeout: 200, connectTimeout: 200 };
    const ended = async (call: () => Promise<unknown>, what: string): Promise<void> => {
      const error: unknown = await call().then(
        () => undefined,
        (failed: unknown) => failed,
      );
      if (what === "setup" && error === undefined) {
        expect(way.hello, what).toBeUndefined();
        return;
      }
      expect(error, what).toBeInstanceOf(SteleTimeoutError);
      expect((error as SteleError).message, what).toMatch(/stopped or busy, or the option \w+ is too short/);
    };
    await Promise.all([
      ...Object.entries(calls.saver).map(async ([what, call]) => {
        const saver = SteleSaver.fromUrl(fake.url, options);
        await ended(() => call(saver), what);
        await saver.close();
      }),
      ...Object.entries(calls.store).map(async ([what, call]) => {
        const store = SteleStore.fromUrl(fake.url, options);
        await ended(() => call(store), what);
        await store.close();
      }),
    ]);
    await fake[Symbol.asyncDispose]();
  });
}

test("who looks for a server that is stopped is told so in one sentence", async () => {
  const fake = new Fake(() => {});
  fake.greet = () => {};
  await fake.listen();
  const saver = SteleSaver.fromUrl(fake.url, { connectTimeout: 200 });
  const error: unknown = await saver.setup().catch((failed: unknown) => failed);
  expect(error).toBeInstanceOf(SteleTimeoutError);
  expect((error as SteleError).message).toBe(
    `${fake.url} did not say hello within 200 ms: the server is stopped or busy, or the option connectTimeout is too short`,
  );
  await saver.close();
  await fake[Symbol.asyncDispose]();
});

test("there are no other calls", () => {
  const none = new Set(["constructor", "close", "stop", "toJSON", "getNextVersion"]);
  for (const name of ["saving", "settle", "read", "load", "migrateSends", "loadWrites", "dump", "loadTyped"]) none.add(name); // private
  for (const [of, known] of [
    [SteleSaver, calls.saver],
    [SteleStore, calls.store],
  ] as const) {
    const names = Object.entries(Object.getOwnPropertyDescriptors(of.prototype));
    const methods = names.filter(([, { value }]) => typeof value === "function").map(([name]) => name);
    expect(methods.filter((name) => !(name in known) && !none.has(name))).toEqual([]);
  }
});

test("a server that ends the first connection and is silent on the next", async () => {
  await using fake = await new Fake(() => {}).listen();
  fake.greet = ({ socket }) => {
    if (fake.hellos.length === 1) socket.destroy();
  };
  await using saver = SteleSaver.fromUrl(fake.url, { connectTimeout: 2000 });
  const error: unknown = await saver.setup().catch((error: unknown) => error);
  expect(error).toBeInstanceOf(SteleConnectionError);
  expect(String(error)).toContain("closed the connection");
  expect(fake.hellos.length).toBe(2);
});
