/**
 * What a saver costs real LangGraph, with stele, SQLite and memory in turn:
 *
 *	node bench.mjs [--rounds 5] [--durability async] [--only chat,loop] [--savers memory,sqlite,stele]
 *
 * It needs the packages of this directory, built, and @langchain/langgraph-checkpoint-sqlite.
 * Every cell is a process of its own. SQLite has WAL, and synchronous=FULL, so that a commit is
 * on disk when it returns, as with stele; `sqlite normal` is as its package comes. `sqlite off`
 * and `stele off` sync nothing. Printed are medians of the rounds.
 *
 *	chat  100 turns of a question and an answer of 1,200 characters
 *	loop  1,000 supersteps that count
 */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values: flags } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    durability: { type: "string", default: "async" },
    only: { type: "string", default: "chat,loop" },
    savers: { type: "string", default: "memory,sqlite,sqlite normal,sqlite off,stele,stele off" },
    cell: { type: "string" }, // KIND,SAVER,DIRECTORY: what a process of the bench does
  },
});
const steps = { chat: 300, loop: 1001 };

/** words is text that compresses about as prose does. */
function words(random, length = 1200) {
  const letters = "etaoinshrdlucmfwyp";
  const word = () => Array.from({ length: 2 + Math.floor(random() * 8) }, () => letters[Math.floor(random() * letters.length)]).join("");
  const known = Array.from({ length: 500 }, word);
  return Array.from({ length: length / 4 }, () => known[Math.floor(random() * known.length)]).join(" ").slice(0, length);
}

/** numbers is a generator of random numbers that are the same in each run. */
function numbers(seed) {
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

function chatGraph() {
  const random = numbers(7);
  const answers = Array.from({ length: 100 }, () => words(random));
  const model = ({ messages }) => ({ messages: [new AIMessage(answers[(messages.length >> 1) % 100])] });
  return new StateGraph(MessagesAnnotation).addNode("model", model).addEdge(START, "model");
}

function loopGraph() {
  const count = ({ n }) => (n + 1 === 1000 ? { n: n + 1 } : new Command({ update: { n: n + 1 }, goto: "count" }));
  return new StateGraph(Annotation.Root({ n: Annotation() })).addNode("count", count, { ends: ["count"] }).addEdge(START, "count");
}

async function chat(app, turns) {
  const random = numbers(8);
  const config = { configurable: { thread_id: "t" }, durability: flags.durability };
  for (let n = 0; n < turns; n++) await app.invoke({ messages: [new HumanMessage(words(random))] }, config);
}

async function open(kind, directory) {
  if (kind === "memory") return [new MemorySaver(), () => {}];
  if (kind.startsWith("sqlite")) {
    const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
    const saver = SqliteSaver.fromConnString(path.join(directory, "checkpoints.sqlite"));
    saver.setup();
    saver.db.pragma(`synchronous=${{ sqlite: "FULL", "sqlite off": "OFF", "sqlite normal": "NORMAL" }[kind]}`);
    return [saver, () => saver.db.close()];
  }
  const { SteleSaver } = await import("langgraph-checkpoint-stele");
  const saver = SteleSaver.fromDir(path.join(directory, "stele"), {
    idleExit: 500,
    deferWrites: kind !== "undeferred",
    serveArgs: kind === "stele off" ? ["--sync=never"] : [],
  });
  await saver.setup();
  return [saver, () => saver.close()];
}

/** cell measures, and prints what it found as JSON. */
async function cell(kind, name, directory) {
  // A first small run loads what is loaded late.
  await chat(chatGraph().compile({ checkpointer: new MemorySaver() }), 5);
  const [saver, close] = await open(name, directory);
  const app = (kind === "chat" ? chatGraph() : loopGraph()).compile({ checkpointer: saver });
  const begin = performance.now();
  const used = process.cpuUsage();
  if (kind === "chat") await chat(app, 100);
  else await app.invoke({ n: 0 }, { configurable: { thread_id: "t" }, recursionLimit: 2000, durability: flags.durability });
  const seconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(used);
  const server = path.join(directory, "stele", "serve.json");
  const pid = fs.existsSync(server) ? JSON.parse(fs.readFileSync(server, "utf8")).pid : undefined;
  await close();
  console.log(JSON.stringify({ seconds, client: (user + system) / 1e6, server: pid ? cpuOf(pid) : 0 }));
}

/** cpuOf is what a process has used of the processors, in seconds. */
function cpuOf(pid) {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function run(kind, name) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "stele-bench-"));
  try {
    const args = [fileURLToPath(import.meta.url), "--durability", flags.durability, "--cell", [kind, name, directory].join(",")];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (text) => (said += text));
    await new Promise((resolve) => child.on("close", resolve));
    return JSON.parse(said);
  } finally {
    // The server ends by itself, and may write until then.
    await new Promise((resolve) => setTimeout(resolve, 700));
    fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

if (flags.cell) {
  await cell(...flags.cell.split(","));
} else {
  const savers = flags.savers.split(",");
  for (const kind of flags.only.split(",")) {
    const found = new Map(savers.map((name) => [name, []]));
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const name of savers) found.get(name).push(await run(kind, name));
    }
    const micros = (name) => (median(found.get(name).map(({ seconds }) => seconds)) / steps[kind]) * 1e6;
    const floor = found.has("memory") ? micros("memory") : 0;
    console.log(`\n${kind}, ${flags.durability}; load ${os.loadavg()[0].toFixed(1)}`);
    console.log("saver            checkpoints/s  us each  added  CPU client  server");
    for (const name of savers) {
      const of = (what) => median(found.get(name).map((cell) => cell[what])).toFixed(2);
      const columns = [(1e6 / micros(name)).toFixed(0).padStart(13), micros(name).toFixed(0).padStart(8), (micros(name) - floor).toFixed(0).padStart(6), of("client").padStart(11), of("server").padStart(7)];
      console.log(name.padEnd(16), ...columns);
    }
  }
}
