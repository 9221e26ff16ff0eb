import { expect, test } from "vitest";
import { clientOfURL } from "../../src/client.js";
import type { Client } from "../../src/client.js";
import { AuthError, ClosedError, InvalidArgumentError, ProtocolError, SteleConnectionError, SteleError, SteleTimeoutError, TooLargeError, VersionError } from "../../src/errors.js";
import type { Fields } from "../../src/wire.js";
import { Fake, frame } from "./fake.js";
import type { Asked } from "./fake.js";
import { random } from "./random.js";

/** using gives a test a server and a client of it. */
async function using(
  handle: (asked: Asked, fake: Fake) => void,
  body: (client: Client, fake: Fake) => Promise<void>,
  options: { timeout?: number; connectTimeout?: number; token?: string; hello?: Fields } = {},
): Promise<void> {
  const fake: Fake = await new Fake((asked) => handle(asked, fake)).listen();
  fake.hello = { ...fake.hello, ...options.hello };
  const client = clientOfURL(fake.url, options);
  try {
    await body(client, fake);
  } finally {
    client.close();
    await fake[Symbol.asyncDispose]();
  }
}

/** until waits for something that will happen. */
async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setImmediate(resolve));
}

const ignore = (): void => {};

test("calls are under way together, and answered in any order", () =>
  using(
    (_, fake) => {
      if (fake.asked.length === 3) for (const asked of fake.asked.toReversed()) asked.answer(asked.params["n"]);
    },
    async (client, fake) => {
      const answers = [1, 2, 3].map((n) => client.read("get", { n }));
      expect(await Promise.all(answers)).toEqual([1, 2, 3]);
      expect(fake.connections).toBe(1);
    },
  ));

test("hello says the protocol, the client and the token", () =>
  using(
    (asked) => asked.answer({}),
    async (client, fake) => {
      await client.hello();
      expect(fake.hellos).toEqual([
        { protocol: 1, client: expect.stringMatching(/^langgraph-checkpoint-stele\/\S+ node\/\d/) as string, token: "secret" },
      ]);
    },
    { token: "secret" },
  ));

test("a write has an id of its own, and one that is asked again has the same", async () => {
  let cuts = 2;
  await using(
    (asked, fake) => {
      if (cuts-- > 0) fake.cut();
      else asked.answer({});
    },
    async (client, fake) => {
      await client.write("put", { x: 1 });
      const [first, second, third] = fake.asked.map(({ params }) => params);
      const call = first?.["call"] as [Uint8Array, number, number];
      expect(call[0]).toHaveLength(16);
      expect(call.slice(1)).toEqual([0, 1]);
      expect(first).toEqual({ x: 1, call });
      expect(second).toEqual({ x: 1, call, again: true });
      expect(third).toEqual(second);
      await client.write("put", { x: 2 });
      expect(fake.asked.at(-1)?.params["call"]).toEqual([call[0], 0, 2]);
    },
  );
});

test("a read that is asked again has no id", async () => {
  let cuts = 1;
  await using(
    (asked, fake) => (cuts-- > 0 ? fake.cut() : asked.answer("yes")),
    async (client, fake) => {
      expect(await client.read("get", { x: 1 })).toBe("yes");
      expect(fake.asked.map(({ params }) => params)).toEqual([{ x: 1 }, { x: 1 }]);
    },
  );
});

test("writes at the same time have different slots, and no more than there are", () =>
  using(
    ignore,
    async (client, fake) => {
      const writes = [1, 2, 3, 4, 5].map((n) => client.write("put", { n }));
      await until(() => fake.asked.length === 4);
      const slots = (): unknown[] => fake.asked.map(({ params }) => (params["call"] as unknown[])[1]);
      expect(slots()).toEqual([0, 1, 2, 3]);
      fake.asked[2]?.answer({});
      await until(() => fake.asked.length === 5);
      expect(slots()).toEqual([0, 1, 2, 3, 2]);
      for (const asked of fake.asked) if (asked.params["n"] !== 3) asked.answer({});
      await Promise.all(writes);
    },
    { hello: { call_slots: 4 } },
  ));

test("the slot of a call that was given up is not used while the call may run", () =>
  using(
    (asked) => {
      if (asked.params["late"] === undefined) asked.answer({});
    },
    async (client, fake) => {
      await client.hello();
      const late = client.write("put", { late: 1 });
      await until(() => fake.asked.length === 1);
      fake.asked[0]?.items([]); // the server is alive
      await expect(late).rejects.toThrow(SteleTimeoutError);
      await until(() => fake.told.length === 1);
      expect(fake.told).toEqual([{ method: "cancel", params: { call: fake.asked[0]?.id } }]);
      const slot = (i: number): unknown => (fake.asked[i]?.params["call"] as unknown[])[1];
      await client.write("put", {});
      expect(slot(1)).toBe(1);
      fake.asked[0]?.fail("cancelled");
      await client.read("get", {}); // its answer comes after that of the call given up
      await client.write("put", {});
      expect(slot(3)).toBe(0);
    },
    { timeout: 2000 },
  ));

test("when slots are gone with calls that may run for ever, the client takes a new name", () =>
  using(
    (asked, fake) => {
      if (asked.params["lose"] === undefined) return asked.answer({});
      fake.hello["protocol"] = 9; // so that it cannot be asked again
      fake.cut();
    },
    async (client, fake) => {
      for (let n = 0; n < 2; n++) {
        await expect(client.write("put", { lose: true })).rejects.toThrow(VersionError);
        fake.hello["protocol"] = 1;
      }
      await client.write("put", {});
      const calls = fake.asked.map(({ params }) => params["call"] as [Uint8Array, number, number]);
      expect(calls.map((call) => call.slice(1))).toEqual([[0, 1], [1, 1], [0, 1]]);
      expect(calls[1]?.[0]).toEqual(calls[0]?.[0]);
      expect(calls[2]?.[0]).not.toEqual(calls[0]?.[0]);
    },
    { hello: { call_slots: 2 } },
  ));

test("a call that the server did not begin, because it ends, is asked of the next one", async () => {
  let closing = true;
  await using(
    (asked) => {
      if (!closing) return asked.answer("done");
      closing = false;
      asked.fail("closing");
    },
    async (client, fake) => {
      expect(await client.write("put", {})).toBe("done");
      expect(fake.asked[1]?.socket).not.toBe(fake.asked[0]?.socket);
    },
  );
});

test("errors of the server are errors of the client, at once", () =>
  using(
    (asked) => asked.fail("invalid", "checkpoint.id: must not be empty", { field: "checkpoint.id" }),
    async (client, fake) => {
      await expect(client.write("put", {})).rejects.toMatchObject({
        name: "InvalidArgumentError",
        code: "invalid",
        details: { field: "checkpoint.id" },
      });
      expect(fake.asked).toHaveLength(1);
    },
  ));

test("a server that refuses is not asked again", async () => {
  for (const [code, type] of [["auth", AuthError], ["version", VersionError]] as const) {
    await using(
      ignore,
      async (client, fake) => {
        fake.refuse = code;
        await expect(client.write("put", {})).rejects.toThrow(type);
        expect(fake.hellos).toHaveLength(1);
      },
    );
  }
});

test("a server of another version is refused", () =>
  using(
    ignore,
    async (client) => {
      await expect(client.hello()).rejects.toThrow(VersionError);
    },
    { hello: { protocol: 2 } },
  ));

test("where nobody answers, the error says so", async () => {
  const client = clientOfURL("unix:/nowhere/to/be/found", { connectTimeout: 50 });
  await expect(client.read("get", {})).rejects.toThrow(SteleConnectionError);
  await expect(client.read("get", {})).rejects.toThrow("unix:/nowhere/to/be/found");
  expect(() => clientOfURL("http://localhost", {})).toThrow(InvalidArgumentError);
  expect(() => clientOfURL("tcp:localhost", {})).toThrow(InvalidArgumentError);
});

test("a server that dies of a call is not asked for ever", () =>
  using(
    (_, fake) => fake.cut(),
    async (client) => {
      await expect(client.write("put", {})).rejects.toThrow(SteleError);
    },
    { timeout: 300 },
  ));

test("a request over the server's limit is refused before it is sent", () =>
  using(
    ignore,
    async (client, fake) => {
      await expect(client.write("put", { data: new Uint8Array(1000) })).rejects.toThrow(TooLargeError);
      expect(fake.asked).toHaveLength(0);
    },
    { hello: { max_frame: 500 } },
  ));

test("what cannot be understood ends the connection, and no call waits for ever", () =>
  using(
    (asked) => asked.socket.write(frame(["what", "is", "this"])),
    async (client) => {
      const calls = [client.read("get", {}), client.write("put", {})];
      for (const call of await Promise.allSettled(calls)) {
        expect(call).toMatchObject({ status: "rejected", reason: expect.any(ProtocolError) as Error });
      }
    },
  ));

test("a closed client makes no calls, and those under way end", () =>
  using(ignore, async (client, fake) => {
    const call = client.read("get", {});
    await until(() => fake.asked.length === 1);
    client.close();
    await expect(call).rejects.toThrow(ClosedError);
    await expect(client.read("get", {})).rejects.toThrow(ClosedError);
    await until(() => fake.connections === 0);
  }));

/** counter answers a listing of so many batches of two, as far as it is allowed to. */
function counter(batches: number): (asked: Asked, fake: Fake) => void {
  return (asked, fake) => {
    let sent = 0;
    const from = Number(asked.params["from"] ?? 0);
    const poll = (): void => {
      const allowed = 4 + fake.told.filter(({ method, params }) => method === "more" && params["call"] === asked.id).length;
      if (fake.told.some(({ method, params }) => method === "cancel" && params["call"] === asked.id)) return asked.fail("cancelled");
      for (; sent < allowed && sent * 2 + from < batches * 2; sent++) asked.items([sent * 2 + from, sent * 2 + from + 1]);
      if (sent * 2 + from >= batches * 2) return asked.answer({ count: batches * 2 });
      setImmediate(poll);
    };
    poll();
  };
}

test("a listing gets as many batches as it asks for", () =>
  using(counter(50), async (client, fake) => {
    const got: unknown[] = [];
    for await (const item of client.stream("list", () => ({}))) {
      got.push(item);
      const more = fake.told.length;
      expect(more).toBeLessThanOrEqual(got.length / 2);
    }
    expect(got).toEqual(Array.from({ length: 100 }, (_, n) => n));
    expect(fake.told.filter(({ method }) => method === "more").length).toBeGreaterThanOrEqual(46);
  }));

test("a listing that nobody reads further is cancelled", () =>
  using(counter(50), async (client, fake) => {
    for await (const item of client.stream("list", () => ({}))) if (item === 3) break;
    await until(() => fake.told.some(({ method }) => method === "cancel"));
    expect(fake.told.at(-1)).toEqual({ method: "cancel", params: { call: fake.asked[0]?.id } });
    expect(fake.told.filter(({ method }) => method === "more").length).toBeLessThanOrEqual(2);
  }));

test("a listing that is cut goes on where it was", async () => {
  const { next, seed } = random();
  const list = counter(50);
  await using(
    (asked, fake) => {
      list(asked, fake);
      if (next() < 0.8) setTimeout(() => asked.socket.destroy(), next() * 3);
    },
    async (client) => {
      let from = 0;
      const got: unknown[] = [];
      for await (const item of client.stream("list", () => ({ from }))) {
        got.push(item);
        from = got.length;
        if (next() < 0.1) await new Promise((resolve) => setTimeout(resolve, 1));
      }
      expect(got.slice(0, 100), seed).toEqual(Array.from({ length: 100 }, (_, n) => n));
    },
  );
});

test("an error ends a listing after what came before it", () =>
  using(
    (asked) => {
      asked.items([1, 2]);
      asked.fail("corrupt", "bad bytes");
    },
    async (client) => {
      const got: unknown[] = [];
      await expect(
        (async () => {
          for await (const item of client.stream("list", () => ({}))) got.push(item);
        })(),
      ).rejects.toMatchObject({ name: "CorruptError" });
      expect(got).toEqual([1, 2]);
    },
  ));

test("listings that nobody reads leave room for calls", () =>
  using(
    (asked, fake) => (asked.method === "list" ? counter(50)(asked, fake) : asked.answer({})),
    async (client) => {
      const open = [1, 2].map(() => client.stream("list", () => ({})));
      for (const listing of open) await listing.next();
      await expect(client.stream("list", () => ({})).next()).rejects.toThrow(SteleTimeoutError);
      expect(await client.read("get", {})).toEqual({});
      await open[0]?.return();
      expect(await client.stream("list", () => ({})).next()).toEqual({ done: false, value: 0 });
      await open[1]?.return();
    },
    { hello: { max_calls: 4 }, timeout: 1000 },
  ));

test("a connection on which a server says nothing at all is left", () =>
  using(
    (asked) => {
      if (asked.params["n"] === 3) asked.answer(3);
    },
    async (client, fake) => {
      await client.hello();
      const silent = [client.write("put", { n: 1 }), client.write("put", { n: 2 })];
      await expect(Promise.race(silent)).rejects.toThrow(SteleTimeoutError);
      await expect(silent[1]).rejects.toThrow(SteleError);
      expect(await client.read("get", { n: 3 })).toBe(3);
      expect(fake.hellos.length).toBeGreaterThan(1);
      expect(fake.connections).toBe(1);
    },
    { timeout: 1000 },
  ));

for (const end of ["answered", "closed"]) {
  test(`what is under way when another call times out is not lost, and can be ${end}`, () =>
    using(
      (asked) => {
        if (asked.method === "list") asked.items([0]);
        if (asked.params["n"] === 2) asked.answer(2);
      },
      async (client, fake) => {
        const listing = client.stream("list", () => ({}));
        expect(await listing.next()).toEqual({ done: false, value: 0 });
        await expect(client.read("get", { n: 1 })).rejects.toThrow(SteleTimeoutError);
        expect(await client.read("get", { n: 2 })).toBe(2);
        expect(fake.hellos.length).toBe(2);
        const next = listing.next();
        if (end === "closed") {
          client.close();
          await expect(next).rejects.toThrow(ClosedError);
        } else {
          fake.asked[0]?.items([1]);
          expect(await next).toEqual({ done: false, value: 1 });
          fake.asked[0]?.answer({});
          expect(await listing.next()).toEqual({ done: true, value: undefined });
        }
        expect(fake.asked.filter(({ method }) => method === "list").length).toBe(1);
        await until(() => fake.connections === (end === "closed" ? 0 : 1));
      },
      { timeout: 1000 },
    ));
}

test("times that are no times are refused, and for ever is long", async () => {
  for (const options of [{ timeout: 0 }, { timeout: -1 }, { timeout: NaN }, { connectTimeout: 0 }]) {
    expect(() => clientOfURL("unix:none", options)).toThrow(InvalidArgumentError);
  }
  await using(
    (asked) => void setTimeout(() => asked.answer("late"), 20),
    async (client) => expect(await client.read("get", {})).toBe("late"),
    { timeout: Infinity, connectTimeout: Infinity },
  );
});
