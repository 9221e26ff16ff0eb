/** The life of a directory's server, and input that is wrong. */
import { runInNewContext } from "node:vm";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { decode, encode } from "@msgpack/msgpack";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import {
  AuthError,
  BinaryNotFoundError,
  DirectoryError,
  DirectoryLockedError,
  DiskFullError,
  InvalidArgumentError,
  SteleConnectionError,
  SteleSaver,
  SteleStore,
  ThreadDeletedError,
  ThreadExistsError,
  TooLargeError,
} from "langgraph-checkpoint-stele";
import { expect, test } from "vitest";
import { binary, directory, ended, kill, serverOf, until } from "./servers.js";

const meta = { source: "loop", step: 0, parents: {} } as const;
const at = (thread_id: string, more: object = {}): { configurable: Record<string, unknown> } => ({
  configurable: { thread_id, checkpoint_ns: "", ...more },
});

function checkpoint(id: string, values: Record<string, unknown> = {}): ReturnType<typeof emptyCheckpoint> {
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
  return { ...emptyCheckpoint(), id, channel_values: values, channel_versions: versions };
}

test("savers and stores of a directory share a server, which ends when nobody uses it", async () => {
  const dir = directory();
  const savers = [1, 2, 3].map(() => SteleSaver.fromDir(dir, { idleExit: 200 }));
  const store = SteleStore.fromDir(dir, { idleExit: 200 });
  await Promise.all(savers.map((saver, n) => saver.put(at(`t${n}`), checkpoint("c"), meta, {})));
  await store.put(["a"], "k", { v: 1 });
  const server = serverOf(dir) as number;
  for (const saver of savers) expect(await saver.getTuple(at("t2"))).toBeDefined();
  expect(serverOf(dir)).toBe(server);
  await Promise.all(savers.map((saver) => saver.close()));
  expect((await store.get(["a"], "k"))?.value).toEqual({ v: 1 });
  store.stop();
  await until(() => ended(server));
  expect(fs.existsSync(path.join(dir, "serve.json"))).toBe(false);
  const again = SteleSaver.fromDir(dir, { idleExit: 200 });
  expect(await again.getTuple(at("t1"))).toBeDefined();
  await again.close();
});

test("a server survives the program that started it, and the program ends without close", async () => {
  const dir = directory();
  const program = `
    import { SteleSaver } from "langgraph-checkpoint-stele";
    await SteleSaver.fromDir(${JSON.stringify(dir)}, { idleExit: 20_000 }).setup();
  `;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 60_000, encoding: "utf8" });
  expect(run, run.stderr).toMatchObject({ status: 0, signal: null });
  const server = serverOf(dir) as number;
  expect(ended(server)).toBe(false);
  await using saver = SteleSaver.fromDir(dir);
  await saver.setup();
  expect(serverOf(dir)).toBe(server);
  kill(dir);
});

test("a server that is told to end finishes, and the next call has another one", async () => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await saver.setup();
  let stopped = 0;
  for (let n = 0; n < 40; n++) {
    const put = Promise.all([1, 2, 3].map((k) => saver.put(at(`t${n}.${k}`), checkpoint("c", { x: n }), meta, { x: 1 })));
    if (n % 10 === 5) {
      const server = serverOf(dir);
      if (server !== undefined) process.kill(server, "SIGTERM");
      stopped++;
    }
    await put;
  }
  expect(stopped).toBe(4);
  const found = [];
  for await (const { threadId } of saver.threads()) found.push(threadId);
  expect(found).toHaveLength(120);
});

test("what servers that were killed leave behind keeps nobody out", async () => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await saver.put(at("t"), checkpoint("c"), meta, {});
  for (let n = 0; n < 3; n++) {
    expect(kill(dir)).toBe(true);
    expect(fs.existsSync(path.join(dir, "serve.json"))).toBe(true);
    await using other = SteleSaver.fromDir(dir, { idleExit: 500 });
    expect(await other.getTuple(at("t"))).toBeDefined();
  }
  kill(dir);
  fs.writeFileSync(path.join(dir, "serve.json"), "{");
  expect(await saver.getTuple(at("t"))).toBeDefined();
});

test("a path that is too long for a socket", async () => {
  const dir = path.join(directory(), "x".repeat(80), "y".repeat(80));
  fs.mkdirSync(dir, { recursive: true });
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await saver.put(at("t"), checkpoint("c"), meta, {});
  expect(await saver.getTuple(at("t"))).toBeDefined();
});

test("a directory that cannot be one is refused, and nothing in it is changed", async () => {
  const dir = directory();
  expect(() => SteleSaver.fromDir(path.join(dir, "a", "b"))).toThrow(DirectoryError);
  expect(() => SteleSaver.fromDir(dir, { create: false })).toThrow(/does not exist; create it, or leave out create: false/);
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, "letter.txt"), "dear");
  expect(() => SteleSaver.fromDir(path.join(dir, "letter.txt"))).toThrow(/is a file; name a directory/);
  await using saver = SteleSaver.fromDir(dir);
  await expect(saver.setup()).rejects.toThrow(DirectoryError);
  await expect(saver.getTuple(at("t"))).rejects.toThrow(/letter\.txt/);
  expect(fs.readdirSync(dir)).toEqual(["letter.txt"]);
  for (const wrong of ["letter.txt/store", "x".repeat(300), "a\0b"]) {
    expect(() => SteleSaver.fromDir(path.join(dir, wrong))).toThrow(DirectoryError);
    expect(() => SteleSaver.fromDir(path.join(dir, wrong))).toThrow(/cannot be looked at .*; check the path/);
  }
  fs.symlinkSync("nowhere", path.join(dir, "link"));
  expect(() => SteleSaver.fromDir(path.join(dir, "link"))).toThrow(/is a link that leads to nothing/);
});

test.each(["runs", "was killed"])("a store that was moved away is not replaced, and its server %s", async (how) => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await saver.put(at("t"), checkpoint("c"), meta, {});
  const server = serverOf(dir) as number;
  if (how === "was killed") {
    kill(dir);
    await until(() => ended(server));
  }
  const refused = async (text: RegExp): Promise<void> => {
    await expect(saver.put(at("t"), checkpoint("d"), meta, {})).rejects.toThrow(text);
    await expect(saver.getTuple(at("t"))).rejects.toThrow(text);
  };
  fs.renameSync(dir, `${dir}.moved`);
  await refused(/is gone; put it back/);
  expect(fs.existsSync(dir)).toBe(false);
  fs.mkdirSync(dir);
  await refused(/is gone; put it back/);
  expect(fs.readdirSync(dir)).toEqual([]);
  {
    await using other = SteleSaver.fromDir(dir); // who does not know
    await other.put(at("other"), checkpoint("c"), meta, {});
    await refused(/another store than the one that was used/);
  }
  const another = serverOf(dir) as number;
  kill(dir);
  await until(() => ended(another));
  fs.rmSync(dir, { recursive: true });
  fs.renameSync(`${dir}.moved`, dir);
  expect((await saver.getTuple(at("t")))?.checkpoint.id).toBe("c");
});

test("a directory that somebody has open who does not serve it", async () => {
  const dir = directory();
  const server = spawn(binary(), ["serve", dir], { stdio: ["ignore", "pipe", "ignore"] });
  await new Promise((resolve) => server.stdout.once("data", resolve));
  fs.rmSync(path.join(dir, "serve.json"));
  await using saver = SteleSaver.fromDir(dir, { connectTimeout: 2000 });
  await expect(saver.setup()).rejects.toThrow(DirectoryLockedError);
  server.kill("SIGKILL");
  await until(() => server.signalCode !== null);
  await saver.setup();
  kill(dir);
});

test("a server that is stopped is told in words", async () => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { timeout: 500, idleExit: 500 });
  await saver.setup();
  const server = serverOf(dir) as number;
  process.kill(server, "SIGSTOP");
  await until(() => fs.readFileSync(`/proc/${server}/stat`, "utf8").includes(") T "));
  try {
    await expect(saver.getTuple(at("t"))).rejects.toThrow(
      "get was not answered within 500 ms: the server is stopped or busy, or the option timeout is too short",
    );
    await using other = SteleSaver.fromDir(dir, { connectTimeout: 500 });
    await expect(other.setup()).rejects.toThrow(/did not say hello within .* ms: the server is stopped or busy, or the option/);
  } finally {
    process.kill(server, "SIGCONT");
  }
});

test("a server that stays for a millisecond waits for its first client", async () => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 1 });
  await saver.put(at("t"), checkpoint("c"), meta, {});
});

test.skipIf(process.platform === "win32")("servers that end by themselves are said to", async () => {
  const dir = directory();
  for (const [does, says] of [
    ["exit 0", "ended by itself, with code 0"],
    ["kill -9 $$", "ended by itself, by SIGKILL"],
  ]) {
    const program = `${dir}.program`;
    fs.writeFileSync(program, `#!/bin/sh\n${does}\n`, { mode: 0o755 });
    await using saver = SteleSaver.fromDir(dir, { binary: program, connectTimeout: 500 });
    await expect(saver.setup()).rejects.toThrow(says);
  }
});

test("a program that is missing, or is another one", async () => {
  await using missing = SteleSaver.fromDir(directory(), { binary: "no-such-stele" });
  await expect(missing.setup()).rejects.toThrow(BinaryNotFoundError);
  await using other = SteleSaver.fromDir(directory(), { binary: process.execPath });
  await expect(other.setup()).rejects.toThrow(DirectoryError);
});

/** small is a file system of 48 MB that a test may fill; undefined where nobody may mount one. */
function small(): string | undefined {
  const dir = directory();
  fs.mkdirSync(dir);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=48m", "stele", dir]).status === 0;
  return mounted ? dir : undefined;
}

/** fill fills a file system until so many bytes are free. It returns the file to remove. */
function fill(disk: string, leave = 0): string {
  const ballast = path.join(disk, "ballast");
  const fd = fs.openSync(ballast, "w");
  expect(() => {
    for (const block = new Uint8Array(1 << 20); ; ) fs.writeSync(fd, block);
  }).toThrow(/space/);
  fs.ftruncateSync(fd, fs.fstatSync(fd).size - leave);
  fs.closeSync(fd);
  return ballast;
}

test("a full disk", async (context) => {
  const disk = small();
  if (disk === undefined) return context.skip("may not mount");
  const dir = path.join(disk, "store");
  try {
    await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
    await using store = SteleStore.fromDir(dir, { idleExit: 500 });
    const put = (id: number, bytes: number): Promise<unknown> =>
      saver.put(at("t"), checkpoint(`c${id}`, { x: randomBytes(bytes) }), meta, { x: 1 });
    await put(0, 1);
    // The server has room to begin with, and the system has none to end with.
    const ballast = fill(disk, 12 << 20);
    for (let n = 0; n < 3; n++) {
      await expect(put(1, 20 << 20)).rejects.toThrow(DiskFullError);
      await expect(put(1, 20 << 20)).rejects.toThrow(/Make room/);
    }
    await put(1, 1);
    fs.rmSync(ballast);
    const all = fill(disk);
    let done = 2;
    const more = async (): Promise<void> => {
      for (;; done++) await put(done, 1 << 20);
    };
    await expect(more()).rejects.toThrow(DiskFullError);
    await expect(saver.putWrites(at("t", { checkpoint_id: "c0" }), [["x", randomBytes(1 << 20)]], "task")).rejects.toThrow(DiskFullError);
    await expect(store.put(["a"], "k", { x: randomBytes(1 << 20).toString("hex") })).rejects.toThrow(DiskFullError);
    fs.rmSync(all);
    await put(done++, 1 << 20);
    const found = [];
    for await (const tuple of saver.list(at("t"))) found.push(tuple.checkpoint.id);
    expect(found).toHaveLength(done);
    expect(await store.get(["a"], "k")).toBeNull();
    expect(spawnSync(binary(), ["verify", dir]).status).toBe(0);
  } finally {
    kill(dir);
    spawnSync("umount", ["-l", disk]);
  }
});

test("a server elsewhere, and its token", async () => {
  const dir = directory();
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, "token"), "right\n");
  const store = path.join(dir, "store");
  const server = spawn(binary(), ["serve", store, "--listen", "tcp:127.0.0.1:0", "--token-file", path.join(dir, "token")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const line = await new Promise<string>((resolve) => server.stdout.once("data", (data) => resolve(String(data))));
  const url = line.replace(/^ready /, "").trim();
  for (const options of [{}, { token: "wrong" }]) {
    await using wrong = SteleSaver.fromUrl(url, options);
    await expect(wrong.setup()).rejects.toThrow(AuthError);
  }
  await using saver = SteleSaver.fromUrl(url, { token: "right", connectTimeout: 2000 });
  await saver.put(at("t"), checkpoint("c"), meta, {});
  expect(await saver.getTuple(at("t"))).toBeDefined();
  server.kill("SIGKILL");
  await until(() => server.signalCode !== null);
  await expect(saver.getTuple(at("t"))).rejects.toThrow(SteleConnectionError);
});

test("who listens where a server was killed learns nothing", async () => {
  for (const answers of [true, false]) {
    const dir = directory();
    fs.mkdirSync(dir);
    let heard = Buffer.alloc(0);
    const listener = net.createServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (data: Buffer) => {
        const first = !heard.includes("challenge");
        heard = Buffer.concat([heard, data]);
        if (!first) return;
        const [, id] = decode(data.subarray(4)) as [number, number];
        const welcome = { protocol: 1, call_slots: 1, max_calls: 1, methods: [], proof: "x".repeat(64) };
        const refusal = { code: "auth", message: "the token is wrong" };
        const answer = encode(answers ? [1, id, null, welcome] : [1, id, refusal, null]);
        const length = Buffer.alloc(4);
        length.writeUInt32BE(answer.length);
        socket.write(Buffer.concat([length, answer]));
      });
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const address = `tcp:127.0.0.1:${(listener.address() as net.AddressInfo).port}`;
    fs.writeFileSync(path.join(dir, "serve.token"), "a-token-that-nobody-learns\n");
    fs.writeFileSync(path.join(dir, "serve.json"), JSON.stringify({ protocol: 1, address, pid: 1, token_file: "serve.token", proof: true }));
    {
      await using saver = SteleSaver.fromDir(dir, { binary: binary() });
      await saver.put(at("t"), checkpoint("c"), meta, {});
      expect(await saver.getTuple(at("t"))).toBeDefined();
    }
    listener.close();
    expect(heard.includes("challenge")).toBe(true);
    expect(heard.includes("a-token-that-nobody-learns")).toBe(false);
    expect(heard.includes("put")).toBe(false);
    kill(dir);
  }
});

test("a server elsewhere with TLS", async () => {
  const dir = directory();
  fs.mkdirSync(dir);
  const certificate = (name: string): [key: string, file: string] => {
    const [key, file] = [path.join(dir, `${name}-key.pem`), path.join(dir, `${name}.pem`)];
    const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", ...names, "-keyout", key, "-out", file], { stdio: "ignore" });
    return [key, file];
  };
  const [[key, cert], [, stranger], token] = [certificate("server"), certificate("stranger"), path.join(dir, "token")];
  fs.writeFileSync(token, "right");
  const args = ["serve", path.join(dir, "store"), "--listen", "tls:127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--token-file", token];
  const server = spawn(binary(), args, { stdio: ["ignore", "pipe", "ignore"] });
  const line = await new Promise<string>((resolve) => server.stdout.once("data", (data) => resolve(String(data))));
  const url = line.replace(/^ready tls:127\.0\.0\.1/, "tls:localhost").trim();
  const tls = { ca: fs.readFileSync(cert) };
  const numbered = url.replace("localhost", "127.0.0.1"); // a name that is not in the certificate
  for (const [at, options] of [[url, {}], [url, { tls: { ca: fs.readFileSync(stranger) } }], [numbered, { tls }]] as const) {
    // Nothing is asked again: a minute would be over before it failed.
    await using refused = SteleSaver.fromUrl(at, { token: "right", connectTimeout: 60_000, ...options });
    await expect(refused.setup()).rejects.toThrow(/no TLS with tls:/);
  }
  for (const wrong of [{}, { token: "wrong" }]) {
    await using refused = SteleSaver.fromUrl(url, { tls, ...wrong });
    await expect(refused.setup()).rejects.toThrow(AuthError);
  }
  await using plain = SteleSaver.fromUrl(url.replace("tls:", "tcp:"), { token: "right", connectTimeout: 50 });
  // A server under load may not even end the connection in time.
  await expect(plain.setup()).rejects.toThrow(/the server closed the connection|did not say hello|does not take a connection/);
  await using saver = SteleSaver.fromUrl(url, { token: "right", tls });
  await saver.put(at("t"), checkpoint("c", { x: "x".repeat(1 << 20) }), meta, { x: 1 });
  expect(await saver.getTuple(at("t"))).toBeDefined();
  await using store = SteleStore.fromUrl(url, { token: "right", tls });
  await store.put(["a"], "k", { v: 1 });
  expect((await store.get(["a"], "k"))?.value).toEqual({ v: 1 });
  server.kill("SIGKILL");
});

test("values that LangGraph's savers lose are refused before a byte is written", async () => {
  const saver = SteleSaver.fromDir(directory());
  const config = await saver.put(at("t"), checkpoint("c", { n: 1 }), meta, { n: 1 });
  const lost = [() => 1, class A {}, Symbol("s"), 1n, { deep: [{ n: 1n }] }, new Map([["n", 1n]])];
  for (const value of lost) {
    await expect(saver.put(at("t"), checkpoint("d", { n: 2, lost: value }), meta, { n: 2, lost: 1 })).rejects.toThrow(InvalidArgumentError);
    await expect(saver.putWrites(config, [["n", 2], ["lost", value]], "task")).rejects.toThrow(InvalidArgumentError);
  }
  const found = await saver.getTuple(at("t"));
  expect([found?.checkpoint.channel_values, found?.pendingWrites]).toEqual([{ n: 1 }, []]);
  await saver.close();
});

test("items that JSON would lose are refused", async () => {
  await using store = SteleStore.fromDir(directory(), { idleExit: 500 });
  const lost = [() => 1, Symbol("s"), 1n, NaN, -Infinity, new Map([[1, 2]]), new Set([1]), /a/, new Error("e"), Object.assign(new Error("e"), { code: 1 }), new ArrayBuffer(1), Promise.resolve(1), new (class A {
    #secret = 1;
    get secret() { return this.#secret; }
  })(), new Uint8Array([1]), Buffer.from("a"), new Float64Array(1), new DataView(new ArrayBuffer(1)), [undefined], [1, , 2], new Date(NaN), { [Symbol("key")]: 1 }, Object.assign([], { [Symbol("key")]: 1 })];
  for (const value of lost) {
    await expect(store.put(["a"], "k", { value }), String(value)).rejects.toThrow(InvalidArgumentError);
    await expect(store.put(["a"], "k", { deep: [{ value }] }), String(value)).rejects.toThrow(InvalidArgumentError);
  }
  for (const [value, told] of [[{ ages: new Map([[1, "x"]]) }, /ages is a Map.*makes strings of its keys/], [new Map([[1, "x"]]), /the value is a Map/], [{ file: Buffer.from("a") }, /file is a Buffer.*base64/], [{ a: [1, undefined] }, /element 1 of a list is undefined/], [{ at: new Date(NaN) }, /at is Invalid Date/], [Buffer.from("a"), /the value is a Buffer/]] as [object, RegExp][]) {
    await expect(store.put(["a"], "k", value as Record<string, unknown>)).rejects.toThrow(told);
  }
  expect(await store.get(["a"], "k")).toBeNull();
  const kept = { date: new Date(0), none: undefined, list: [null, ""], empty: {}, bare: Object.create(null) as object, realm: runInNewContext("({})") as object, zero: 0, made: new (class B { a = 1 })() };
  await store.put(["a"], "k", kept);
  expect((await store.get(["a"], "k"))?.value).toEqual(JSON.parse(JSON.stringify(kept)));
});

test("arguments that are wrong, and values that are too large", async () => {
  const text = "--sync never" as unknown as string[];
  for (const path of [undefined, null, 5, {}] as unknown as string[]) {
    for (const open of [SteleSaver.fromDir, SteleStore.fromDir]) {
      expect(() => open(path)).toThrow(InvalidArgumentError);
      expect(() => open(path)).toThrow(`the path of the store is ${JSON.stringify(path) ?? "undefined"}; name its directory`);
    }
  }
  for (const wrong of [() => SteleSaver.fromDir(""), () => SteleSaver.fromDir(directory(), { idleExit: "60" as unknown as number }), () => SteleSaver.fromDir(directory(), { idleExit: NaN }), () => SteleSaver.fromDir(directory(), { serveArgs: text })]) {
    expect(wrong).toThrow(InvalidArgumentError);
  }
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await expect(saver.put({ configurable: {} }, checkpoint("c"), meta, {})).rejects.toThrow(InvalidArgumentError);
  await expect(saver.putWrites(at("t"), [["x", 1]], "task")).rejects.toThrow(/checkpoint_id/);
  await expect(saver.put(at("t"), checkpoint(""), meta, {})).rejects.toMatchObject({ details: { field: expect.anything() as string } });
  const large = checkpoint("c", { x: new Uint8Array(65 << 20) });
  await expect(saver.put(at("t"), large, meta, { x: 1 })).rejects.toThrow(TooLargeError);
  await expect(saver.put(at("t"), large, meta, { x: 1 })).rejects.toThrow(/68157440 bytes, the limit is 67108864.*Keep large data elsewhere/);
  const larger = checkpoint("c", { x: new Uint8Array(130 << 20) });
  await expect(saver.put(at("t"), larger, meta, { x: 1 })).rejects.toThrow(TooLargeError);
  await using items = SteleStore.fromDir(dir, { idleExit: 500 });
  for (const mib of [65, 130]) {
    const put = items.put(["a"], "k", { x: "x".repeat(mib << 20) });
    await expect(put).rejects.toThrow(TooLargeError);
    await expect(put).rejects.toThrow(/(the limit is 67108864|the server takes 134217728).*Keep large data elsewhere/);
  }
  for (const missing of [undefined, null] as unknown as string[]) {
    await expect(saver.deleteThread(missing)).rejects.toThrow(InvalidArgumentError);
    for (const call of [items.put(["a"], missing, {}), items.get(["a"], missing), items.delete(["a"], missing)]) {
      await expect(call).rejects.toThrow(/the key of an item is/);
    }
  }
  expect(await items.get(["a"], "k")).toBeNull();
  expect(await saver.getTuple(at("t"))).toBeUndefined();
  await saver.put(at("t"), checkpoint("c", { x: new Uint8Array(1 << 20) }), meta, { x: 1 });
  const { x } = (await saver.getTuple(at("t")))?.checkpoint.channel_values as { x: Uint8Array };
  expect([x.constructor, Buffer.compare(x, new Uint8Array(1 << 20))]).toEqual([Uint8Array, 0]);
  expect(x.buffer.byteLength).toBe(1 << 20);
});

test("copies, removals and threads", async () => {
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  let config = at("a");
  for (let n = 0; n < 3; n++) {
    config = (await saver.put(config, checkpoint(`c${n}`, { x: n }), { ...meta, run_id: `r${n}` } as never, { x: 1 })) as typeof config;
  }
  await saver.putWrites(config, [["x", 9]], "task", "path");
  await saver.copyThread("a", "b");
  await expect(saver.copyThread("a", "b")).rejects.toThrow(ThreadExistsError);
  const ids = async (thread: string): Promise<unknown[]> => {
    const found = [];
    for await (const tuple of saver.list(at(thread))) found.push(tuple.checkpoint.id);
    return found;
  };
  expect(await ids("b")).toEqual(["c2", "c1", "c0"]);
  expect((await saver.getTuple(at("b")))?.pendingWrites).toEqual([["task", "x", 9]]);
  expect(await saver.prune(["b"])).toMatchObject({ checkpoints: 2 });
  expect(await ids("b")).toEqual(["c2"]);
  expect(await saver.deleteForRuns(["r2"])).toMatchObject({ checkpoints: expect.any(Number) as number });
  expect(await ids("a")).not.toContain("c2");
  const threads = [];
  for await (const thread of saver.threads({ prefix: "a" })) threads.push(thread);
  expect(threads).toMatchObject([{ threadId: "a", head: "c1", updatedAt: expect.any(Date) as Date }]);
  expect(Math.abs(Number(threads[0]?.updatedAt) - Date.now())).toBeLessThan(600_000);
  await saver.deleteThread("a");
  expect(await ids("a")).toEqual([]);
  await expect(saver.putWrites(at("a", { checkpoint_id: "c1" }), [["x", 1]], "task")).rejects.toThrow(ThreadDeletedError);
  await saver.erase(["b"]);
  await saver.sync();
  for await (const thread of saver.threads()) expect.fail(thread.threadId);
});

test("a listing over several namespaces and threads goes on when its server is killed", async () => {
  const dir = directory();
  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  const want: string[] = [];
  const big = "x".repeat(20_000);
  for (let n = 0; n < 20; n++) {
    for (const thread of ["a", "b"]) {
      for (const checkpoint_ns of ["", "sub:1"]) {
        await saver.put(at(thread, { checkpoint_ns }), checkpoint(`c${String(n).padStart(3, "0")}`, { big }), meta, { big: 1 });
      }
    }
  }
  for (let n = 19; n >= 0; n--) {
    for (const thread of ["a", "b"]) for (const ns of ["", "sub:1"]) want.push(`c${String(n).padStart(3, "0")} ${thread} ${ns}`);
  }
  const list = async (config: object, limit?: number): Promise<string[]> => {
    const got: string[] = [];
    let killed = 0;
    for await (const tuple of saver.list(config, limit === undefined ? {} : { limit })) {
      const { thread_id, checkpoint_ns } = tuple.config.configurable ?? {};
      got.push(`${tuple.checkpoint.id} ${String(thread_id)} ${String(checkpoint_ns)}`);
      if (got.length % 15 === 0 && kill(dir)) killed++;
    }
    expect(killed).toBeGreaterThan(0);
    return got;
  };
  expect(await list({})).toEqual(want);
  expect(await list({}, 50)).toEqual(want.slice(0, 50));
  expect(await list({ configurable: { thread_id: "b" } })).toEqual(want.filter((line) => line.includes(" b ")));
  expect(await list(at("b"), 17)).toEqual(want.filter((line) => line.endsWith(" b ")).slice(0, 17));
});
