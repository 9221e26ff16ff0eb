// LangGraph's SDK for JavaScript, and its RemoteGraph, against a server: every method that the SDK has.
//
// Usage: node client.mjs BASE [SDK], where @langchain/langgraph-sdk and @langchain/langgraph are installed.
// The graphs are those of ../graphs_test.go. A method that was not called is a failure.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are looked for where the script is run.
const require = createRequire(pathToFileURL(process.cwd() + "/"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const sdk = await load(process.argv[3] ?? "@langchain/langgraph-sdk");
const { Client } = sdk.default ?? sdk;
const { RemoteGraph } = await load("@langchain/langgraph/remote");
const { Command } = await load("@langchain/langgraph");

const base = process.argv[2];
const mark = randomUUID();
const called = new Set();
const plain = new Client({ apiUrl: base });

// counted is a part of the client that remembers which of its methods were called.
const counted = (part) =>
  new Proxy(plain[part], {
    get(target, name) {
      const value = target[name];
      if (typeof value !== "function") return value;
      called.add(`${part}.${String(name)}`);
      return value.bind(target);
    },
  });
const c = Object.fromEntries(["assistants", "threads", "runs", "crons", "store"].map((p) => [p, counted(p)]));

const all = async (stream) => {
  const out = [];
  for await (const part of stream) out.push(part);
  return out;
};

async function assistants() {
  const a = await c.assistants.create({ graphId: "configured", name: mark, metadata: { mark }, config: { configurable: { style: "formal" } } });
  const id = a.assistant_id;
  assert.equal((await c.assistants.get(id)).name, mark);
  assert.equal(await c.assistants.count({ metadata: { mark } }), 1);
  assert.deepEqual((await c.assistants.search({ metadata: { mark } })).map((x) => x.assistant_id), [id]);
  assert.deepEqual((await c.assistants.getGraph("counter")).edges[0], { source: "__start__", target: "one" });
  const system = await c.assistants.search({ metadata: { created_by: "system" }, limit: 100 });
  const of = Object.fromEntries(system.map((x) => [x.graph_id, x.assistant_id]));
  assert.ok((await c.assistants.getSchemas(of.counter)).state_schema.properties.n);
  assert.deepEqual(Object.keys(await c.assistants.getSubgraphs(of.nested, { recurse: true })), ["middle", "middle|inner"]);
  assert.equal((await c.assistants.update(id, { config: { configurable: { style: "plain" } } })).version, 2);
  assert.deepEqual((await c.assistants.getVersions(id)).map((v) => v.version), [2, 1]);
  assert.equal((await c.assistants.setLatest(id, 1)).version, 1);
  await c.assistants.delete(id);
  await assert.rejects(c.assistants.get(id), /404/);
}

async function threads() {
  const t = (await c.threads.create({ metadata: { mark }, graphId: "counter" })).thread_id;
  await assert.rejects(plain.threads.create({ threadId: t, ifExists: "raise" }), /409/);
  assert.equal((await c.threads.get(t)).status, "idle");
  assert.equal((await c.threads.update(t, { metadata: { more: 1 } })).metadata.more, 1);
  assert.equal((await c.threads.search({ metadata: { mark } })).length, 1);
  assert.equal(await c.threads.count({ metadata: { mark } }), 1);
  await c.runs.wait(t, "counter", { input: { n: 1 } });
  assert.equal((await c.threads.getState(t)).values.n, 112);
  const h = await c.threads.getHistory(t);
  assert.deepEqual(h.map((s) => s.metadata.step), [3, 2, 1, 0, -1]);
  assert.equal((await c.threads.getState(t, h[1].checkpoint)).values.n, 12);
  await c.threads.updateState(t, { values: { log: ["by hand"] }, asNode: "three" });
  assert.equal((await c.threads.getState(t)).values.log.at(-1), "by hand");
  await c.threads.copy(t);
  assert.equal((await c.threads.search({ metadata: { mark } })).length, 2);
  await c.threads.delete(t);
  await assert.rejects(c.threads.get(t), /404/);
}

async function runs() {
  const t = (await c.threads.create()).thread_id;
  const r = await c.runs.create(t, "counter", { input: { n: 1 }, metadata: { mark } });
  assert.equal((await c.runs.join(t, r.run_id)).n, 112);
  assert.equal((await c.runs.get(t, r.run_id)).status, "success");
  assert.equal((await c.runs.list(t)).length, 1);
  assert.equal((await c.runs.wait(null, "counter", { input: { n: 2 } })).n, 113);
  const parts = await all(c.runs.stream(t, "counter", { input: { n: 0 }, streamMode: ["updates", "values"] }));
  assert.deepEqual(parts.map((p) => p.event), ["metadata", "values", "updates", "values", "updates", "values", "updates", "values"]);
  await assert.rejects(plain.runs.wait(t, "counter", { input: {}, multitaskStrategy: "maybe" }), /422/);
  await assert.rejects(plain.runs.wait(t, "error", { input: { fail: true } }), /boom/);
  const s = (await c.threads.create()).thread_id;
  let slow = await c.runs.create(s, "slow", { input: { delay: 0.05 }, streamMode: "updates", streamResumable: true });
  const joined = await all(c.runs.joinStream(s, slow.run_id, { lastEventId: "-1" }));
  assert.deepEqual(joined.filter((p) => p.event === "updates").map((p) => Object.keys(p.data)[0]), ["a", "b", "c", "d"]);
  slow = await c.runs.create(s, "slow", { input: { delay: 20 } });
  await c.runs.cancel(s, slow.run_id, true);
  assert.equal((await c.runs.get(s, slow.run_id)).status, "interrupted");
  await c.runs.delete(s, slow.run_id);
  assert.equal((await c.runs.createBatch([{ assistantId: "counter", input: { n: 1 } }, { assistantId: "custom", input: {} }])).length, 2);
  const a = (await c.threads.create()).thread_id;
  const asked = await c.runs.wait(a, "agent", { input: { messages: [{ role: "user", content: "weather in Rome" }] } });
  assert.equal(asked.__interrupt__[0].value.city, "Rome");
  const end = await c.runs.wait(a, "agent", { command: { resume: "sunny" } });
  assert.equal(end.messages.at(-1).content, "You said: sunny");
}

// threadStream is the stream of all runs of a thread, whoever starts them.
async function threadStream() {
  const t = (await c.threads.create()).thread_id;
  const abort = new AbortController();
  const first = (async () => {
    for await (const part of c.threads.joinStream(t, { streamMode: ["run_modes"], signal: abort.signal })) return part;
  })();
  let seen;
  first.then((part) => (seen = part));
  for (const end = Date.now() + 15000; !seen && Date.now() < end; ) await c.runs.wait(t, "counter", { input: { n: 1 } });
  abort.abort();
  assert.ok(seen, "the stream of a thread has no events");
}

async function store() {
  const ns = ["clients", mark];
  await c.store.putItem(ns, "k", { n: 1 });
  assert.deepEqual((await c.store.getItem(ns, "k")).value, { n: 1 });
  assert.equal((await c.store.searchItems(ns, { filter: { n: 1 } })).items.length, 1);
  assert.deepEqual((await c.store.listNamespaces({ prefix: ns })).namespaces, [ns]);
  await c.store.deleteItem(ns, "k");
}

async function crons() {
  const t = (await c.threads.create()).thread_id;
  const a = await c.crons.createForThread(t, "counter", { schedule: "0 0 1 1 *", input: { n: 1 } });
  const b = await c.crons.create("counter", { schedule: "0 0 1 1 *", input: { n: 1 } });
  assert.equal((await c.crons.search({ threadId: t })).length, 1);
  assert.equal(await c.crons.count({ threadId: t }), 1);
  assert.equal((await c.crons.update(a.cron_id, { schedule: "1 2 3 4 *" })).schedule, "1 2 3 4 *");
  await c.crons.delete(a.cron_id);
  await c.crons.delete(b.cron_id);
}

async function remote() {
  const config = async () => ({ configurable: { thread_id: (await plain.threads.create()).thread_id } });
  const g = new RemoteGraph({ graphId: "counter", url: base });
  const at = await config();
  assert.equal((await g.invoke({ n: 1 }, at)).n, 112);
  assert.deepEqual((await all(await g.stream({ n: 0 }, { ...at, streamMode: "updates" }))).map((u) => Object.keys(u)[0]), ["one", "two", "three"]);
  assert.equal((await g.getState(at)).values.n, 223);
  assert.equal((await all(g.getStateHistory(at, { limit: 2 }))).length, 2);
  await g.updateState(at, { log: ["by hand"] }, "three");
  assert.equal((await g.getState(at)).values.log.at(-1), "by hand");
  assert.ok((await g.getGraphAsync()).nodes.two);
  const agent = new RemoteGraph({ graphId: "agent", url: base });
  const other = await config();
  const asks = (e) => e.interrupts[0].value.city === "Rome"; // it throws what the graph asks
  await assert.rejects(agent.invoke({ messages: [{ role: "user", content: "weather in Rome" }] }, other), asks);
  assert.equal((await agent.getState(other)).tasks[0].interrupts[0].value.city, "Rome");
  const end = await agent.invoke(new Command({ resume: "sunny" }), other);
  assert.equal(end.messages.at(-1).content, "You said: sunny");
}

// newest are methods that not every version has.
async function newest() {
  if (!plain.threads.prune) return;
  const t = (await c.threads.create({ graphId: "counter" })).thread_id;
  assert.equal((await c.threads.prune([t])).pruned_count, 1);
  await assert.rejects(c.threads.get(t), /404/);
  const busy = (await c.threads.create({ graphId: "counter" })).thread_id;
  const run = (await c.runs.create(busy, "counter", { input: { n: 1 }, afterSeconds: 3600 })).run_id;
  await c.runs.cancelMany({ threadId: busy, runIds: [run] });
  assert.equal((await c.runs.get(busy, run)).status, "interrupted");
}

for (const play of [assistants, threads, runs, threadStream, store, crons, remote, newest]) {
  await play();
  console.log(play.name);
}
const own = new Set(["constructor", "prepareFetchOptions", "fetch", "streamWithRetry"]);
const missed = [];
for (const part of Object.keys(c))
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(plain[part])))
    if (!own.has(name) && !called.has(`${part}.${name}`)) missed.push(`${part}.${name}`);
// threads.stream speaks protocol v2, which client.py plays. What patchState asks for, the
// reference server does not have either.
const elsewhere = ["threads.stream", "threads.patchState"];
assert.deepEqual(missed.filter((m) => !elsewhere.includes(m)), []);
console.log("all methods");
process.exit(0);
