/** Graphs of LangGraph leave the same behind as with LangGraph's saver in memory. */
import { Annotation, Command, END, MemorySaver, START, Send, StateGraph, interrupt } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { SteleSaver } from "langgraph-checkpoint-stele";
import { expect, test } from "vitest";
import { directory } from "./servers.js";

const State = Annotation.Root({
  n: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
type Seen = typeof State.State;
type Config = { configurable: { thread_id: string }; durability: "async" | "sync" | "exit" };

/** loop counts to three by two nodes, the second of which is b. */
function loop(b: (state: Seen) => unknown = ({ n }) => ({ log: [`b${n}`] })) {
  return new StateGraph(State)
    .addNode("a", ({ n }) => ({ n: n + 1, log: [`a${n}`] }))
    .addNode("b", b as () => Partial<Seen>)
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addConditionalEdges("b", ({ n }) => (n < 3 ? "a" : END));
}

/** fan sends four tasks at once, which run work. */
function fan(work: (i: number) => string) {
  return new StateGraph(State)
    .addNode("w", ((sent: { i: number }) => ({ log: [work(sent.i)] })) as never)
    .addNode("end", () => ({ log: ["end"] }))
    .addConditionalEdges(START, () => [0, 1, 2, 3].map((i) => new Send("w" as never, { i })))
    .addEdge("w" as never, "end");
}

async function gather<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found = [];
  for await (const one of from) found.push(one);
  return found;
}

const failure = (error: Error): string => `${error.name}: ${error.message.split("\n")[0]}`;

// Each runs graphs on the thread, and returns what their caller has seen.
const scenarios: Record<string, (saver: BaseCheckpointSaver, config: Config) => Promise<unknown>> = {
  "two runs": async (checkpointer, config) => {
    const app = loop().compile({ checkpointer });
    const streamMode = ["values", "updates", "tasks", "checkpoints", "debug"] as "values"[];
    return [await gather(await app.stream({ n: 0 }, { ...config, streamMode })), await app.invoke({ n: 1 }, config)];
  },
  "questions": async (checkpointer, config) => {
    const app = loop(({ n }) => ({ log: [interrupt<string, string>(`q${n}`)] })).compile({ checkpointer });
    const seen: unknown[] = [await app.invoke({ n: 0 }, config), await app.getState(config)];
    for (const resume of ["one", "two", "three"]) seen.push(await app.invoke(new Command({ resume }), config));
    return seen;
  },
  "a state that is changed between two runs": async (checkpointer, config) => {
    const app = loop().compile({ checkpointer, interruptBefore: ["b"] });
    const seen = [await app.invoke({ n: 0 }, config)];
    await app.updateState({ configurable: config.configurable }, { log: ["changed"] });
    return [...seen, await app.invoke(null, config), await app.invoke(null, config)];
  },
  "a node that fails once": async (checkpointer, config) => {
    let bad = true;
    const app = loop(({ n }) => {
      if (n === 2 && bad) throw new TypeError("bad");
      return { log: ["good"] };
    }).compile({ checkpointer });
    const failed = await app.invoke({ n: 0 }, config).catch(failure);
    const between = await app.getState(config);
    bad = false;
    return [failed, between, await app.invoke(null, config)];
  },
  "tasks at once, of which one fails once": async (checkpointer, config) => {
    const ran: number[] = [];
    const app = fan((i) => {
      ran.push(i);
      if (i === 2 && ran.length < 5) throw new Error("bad");
      return `w${i}`;
    }).compile({ checkpointer });
    return [await app.invoke({ n: 0 }, config).catch(failure), await app.invoke(null, config), ran];
  },
  "tasks at once, of which some ask": async (checkpointer, config) => {
    const app = fan((i) => (i % 2 ? interrupt<string, string>(`q${i}`) : `w${i}`)).compile({ checkpointer });
    await app.invoke({ n: 0 }, config);
    const asked = (await app.getState(config)).tasks.flatMap(({ interrupts }) => interrupts);
    return app.invoke(new Command({ resume: Object.fromEntries(asked.map(({ id }, n) => [id, `answer ${n}`])) }), config);
  },
  "a subgraph that asks": async (checkpointer, config) => {
    const inner = new StateGraph(State)
      .addNode("first", () => ({ log: ["first"] }))
      .addNode("second", () => ({ log: [interrupt<string, string>("q")] }))
      .addEdge(START, "first")
      .addEdge("first", "second")
      .compile();
    const app = new StateGraph(State).addNode("inner", inner).addEdge(START, "inner").compile({ checkpointer });
    const seen: unknown[] = [await app.invoke({ n: 0 }, config), await app.getState(config, { subgraphs: true } as never)];
    return [...seen, await gather(await app.stream(new Command({ resume: "yes" }), { ...config, subgraphs: true }))];
  },
  "a fork": async (checkpointer, config) => {
    const app = loop().compile({ checkpointer });
    await app.invoke({ n: 0 }, config);
    const history = await gather(app.getStateHistory(config));
    const at = history.find(({ next }) => next[0] === "b") ?? history[0];
    const forked = await app.updateState(at?.config ?? {}, { n: 2, log: ["forked"] });
    return app.invoke(null, { ...forked, durability: config.durability });
  },
  "a run that is aborted, and goes on at once": async (checkpointer, config) => {
    const abort = new AbortController();
    const app = loop(async ({ n }) => {
      if (n === 2 && !abort.signal.aborted) {
        abort.abort();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { log: ["b"] };
    }).compile({ checkpointer });
    const aborted = await app.invoke({ n: 0 }, { ...config, signal: abort.signal }).catch(({ name }: Error) => name);
    // In exit the run saves when its node has ended.
    if (config.durability === "exit") while ((await app.getState(config)).values.n !== 2) await new Promise((resolve) => setTimeout(resolve, 5));
    return [aborted, await app.getState(config), await app.invoke(null, config)];
  },
  "a run with too many steps": async (checkpointer, config) => {
    const app = loop().compile({ checkpointer });
    return [await app.invoke({ n: -9 }, { ...config, recursionLimit: 3 }).catch(failure), await app.invoke(null, config)];
  },
};

/** plain is a value as JSON, with ids in the order in which they appear, and without times. */
function plain(value: unknown): unknown {
  const ids = new Map<string, string>();
  const named = (id: string): string => {
    if (!ids.has(id)) ids.set(id, `id ${ids.size}`);
    return ids.get(id) as string;
  };
  const text = JSON.stringify(value)
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time")
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g, named);
  return JSON.parse(text);
}

/** left is all that a thread has. Channels that nobody wrote are made anew, and are not stored. */
async function left(saver: BaseCheckpointSaver, config: Config): Promise<unknown[]> {
  const tuples = await gather(saver.list({ configurable: { ...config.configurable } }));
  const found = tuples.map(({ checkpoint, pendingWrites = [], ...rest }) => ({
    ...rest,
    checkpoint: { ...checkpoint, channel_values: Object.fromEntries(Object.entries(checkpoint.channel_values).filter(([name]) => name in checkpoint.channel_versions)) },
    // Tasks that run at once end in any order.
    writes: pendingWrites.map(([, ...write]) => JSON.stringify(plain(write))).sort(),
  }));
  return found.sort((a, b) => (a.checkpoint.id < b.checkpoint.id ? 1 : -1));
}

test.each(Object.keys(scenarios).flatMap((name) => (["async", "sync", "exit"] as const).map((durability) => [name, durability] as const)))("%s: %s", async (name, durability) => {
  const config = { configurable: { thread_id: "t" }, durability };
  const run = async (saver: BaseCheckpointSaver): Promise<unknown> => {
    const seen = await scenarios[name]?.(saver, config);
    return plain([seen, await gather(loop().compile({ checkpointer: saver }).getStateHistory(config)), await left(saver, config)]);
  };
  await using saver = SteleSaver.fromDir(directory(), { idleExit: 500 });
  expect(await run(saver)).toEqual(await run(new MemorySaver()));
});
