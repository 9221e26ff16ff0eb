/** Threads that Python began: what LangGraph there gave to a saver is in python.jsonl. */
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, Command, START, Send, StateGraph, interrupt, messagesStateReducer } from "@langchain/langgraph";
import * as fs from "node:fs";
import * as path from "node:path";
import { SteleSaver, SteleSerializer, UnreadableValueError } from "langgraph-checkpoint-stele";
import { afterAll, beforeAll, expect, test } from "vitest";
import { clientOfDirectory } from "../../src/client.js";
import { directory } from "./servers.js";

const dir = directory();
const saver = SteleSaver.fromDir(dir, { idleExit: 500 });
const at = (thread_id: string): { configurable: { thread_id: string } } => ({ configurable: { thread_id } });

beforeAll(async () => {
  const recorded = fs.readFileSync(path.join(import.meta.dirname, "python.jsonl"), "utf8").trim().split("\n").slice(1);
  const client = clientOfDirectory(dir, { idleExit: 500 });
  for (const line of recorded) {
    const { method, params } = JSON.parse(line, (_, value: unknown) => {
      const typed = (value as { $typed?: [string, string] } | null)?.$typed;
      return typed ? [typed[0], Buffer.from(typed[1], "base64")] : value;
    }) as { method: string; params: Record<string, unknown> };
    await client.write(method, params);
  }
  client.close();
});

afterAll(() => saver.close());

const Chat = Annotation.Root({
  messages: Annotation<unknown[]>({ reducer: messagesStateReducer as never, default: () => [] }),
  facts: Annotation<unknown>(),
});
const Work = Annotation.Root({ out: Annotation<unknown[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

test("values and metadata of Python are those of JavaScript", async () => {
  const tuple = await saver.getTuple(at("chat"));
  const { messages, facts } = tuple?.checkpoint.channel_values as { messages: unknown[]; facts: unknown };
  expect(facts).toEqual({
    none: null,
    bytes: new Uint8Array([0, 255]),
    big: 2n ** 60n,
    wide: 2 ** 40,
    half: 0.5,
    tuple: [1, "é😀"],
    set: new Set([1]),
    when: new Date("2026-01-02T03:04:05.678Z"),
    naive: new Date("2026-01-02T03:04:05Z"),
    day: "2026-01-02",
    id: "12345678-1234-5678-1234-567812345678",
    price: "1.50",
    path: "/a/b",
    pattern: /a+/u,
    color: "red",
    point: { x: 1, y: 2.5 },
    keys: { "1": "yes" },
  });
  expect(messages.map((message) => (message as object).constructor)).toEqual([HumanMessage, AIMessage, ToolMessage, HumanMessage, AIMessage]);
  expect(messages).toMatchObject([
    { id: "h0", content: "question 0" },
    { id: "a1", tool_calls: [{ name: "look", args: { for: "tea" }, id: "call1" }], usage_metadata: { total_tokens: 3 } },
    { id: "t1", content: "found", tool_call_id: "call1" },
    { id: "h1", content: "question 1" },
    { id: "a4", content: "answer 4" },
  ]);
  expect(tuple?.metadata).toMatchObject({ source: "loop", step: 4, parents: {} });
  const steps = [];
  for await (const { metadata } of saver.list(at("chat"), { filter: { source: "input" } })) steps.push(metadata?.step);
  expect(steps).toEqual([2, -1]);
});

test("a chat goes on", async () => {
  const graph = new StateGraph(Chat)
    .addNode("answer", (state) => ({ messages: [new AIMessage({ content: `answer ${state.messages.length}`, id: `a${state.messages.length}` })] }))
    .addEdge(START, "answer")
    .compile({ checkpointer: saver });
  expect((await graph.getState(at("chat"))).next).toEqual([]);
  const { messages } = await graph.invoke({ messages: [new HumanMessage({ content: "question 2", id: "h2" })] }, at("chat"));
  expect(messages.map((message) => (message as AIMessage).id)).toEqual(["h0", "a1", "t1", "h1", "a4", "h2", "a6"]);
  const versions = Object.values((await saver.getTuple(at("chat")))?.checkpoint.channel_versions ?? {});
  for (const version of versions) expect(String(version)).toMatch(/^\d{32}\.0\.\d{1,19}$/);
  let last = "";
  for await (const { checkpoint } of saver.list(at("chat"))) {
    if (last !== "") expect(checkpoint.id < last).toBe(true);
    last = checkpoint.id;
  }
});

const ask = (): { out: unknown[] } => ({ out: [interrupt("May I?")] });

test("an interrupt is answered; what ran beside it runs again", async () => {
  let left = 0;
  const graph = new StateGraph(Work)
    .addNode("left", () => (left++, { out: ["left"] }))
    .addNode("ask", ask)
    .addEdge(START, "left")
    .addEdge(START, "ask")
    .compile({ checkpointer: saver });
  expect((await graph.getState(at("both"))).next.toSorted()).toEqual(["ask", "left"]);
  const { out } = await graph.invoke(new Command({ resume: "yes" }), at("both"));
  expect([out.toSorted(), left]).toEqual([["left", "yes"], 1]);
});

test("packets are received", async () => {
  const graph = new StateGraph(Work)
    .addNode("plan", () => ({}))
    .addNode("work", (state: unknown) => ({ out: [(state as { n: number }).n * 10] }))
    .addNode("ask", ask)
    .addEdge(START, "plan")
    .addEdge("work", "ask")
    .addConditionalEdges("plan", () => [1, 2].map((n) => new Send("work", { n })), ["work"])
    .compile({ checkpointer: saver });
  expect((await graph.getState(at("planned"))).next).toEqual(["work", "work"]);
  await graph.invoke(null, at("planned"));
  for (const thread of ["planned", "sent"]) {
    expect((await graph.getState(at(thread))).next).toEqual(["ask"]);
    expect((await graph.invoke(new Command({ resume: "yes" }), at(thread))).out).toEqual([10, 20, "yes"]);
  }
});

test("a subgraph that was interrupted begins anew, and asks again", async () => {
  let first = 0;
  const inner = new StateGraph(Work)
    .addNode("first", () => (first++, { out: ["first"] }))
    .addNode("ask", ask)
    .addEdge(START, "first")
    .addEdge("first", "ask")
    .compile();
  const outer = new StateGraph(Work).addNode("inner", inner).addEdge(START, "inner").compile({ checkpointer: saver });
  await outer.invoke(new Command({ resume: "lost" }), at("nested"));
  expect((await outer.getState(at("nested"))).next).toEqual(["inner"]);
  const { out } = await outer.invoke(new Command({ resume: "yes" }), at("nested"));
  expect([out, first]).toEqual([["first", "yes"], 1]);
});

test("what JavaScript cannot hold is an error that says so", async () => {
  const serde = new SteleSerializer();
  const hex = (text: string): Uint8Array => Buffer.from(text.replaceAll(" ", ""), "hex");
  await expect(serde.loadsTyped("pickle", hex("80"))).rejects.toThrow(/of the kind pickle.*Read the thread with the language/);
  await expect(serde.loadsTyped("msgpack", hex("c7 01 06 90"))).rejects.toThrow(/NumPy/);
  await expect(serde.loadsTyped("msgpack", hex("81 a9 5f5f70726f746f5f5f 01"))).rejects.toThrow(UnreadableValueError);
  await expect(serde.loadsTyped("msgpack", hex("c7 01 00 90"))).rejects.toThrow(UnreadableValueError);
  await expect(serde.loadsTyped("msgpack", hex("93 01"))).rejects.toThrow(UnreadableValueError);
  expect(await serde.loadsTyped("null", hex(""))).toBeNull();
  expect(await serde.loadsTyped("bytearray", hex("01"))).toEqual(hex("01"));
});
