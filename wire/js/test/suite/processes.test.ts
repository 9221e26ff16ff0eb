/** Several processes on one directory; they and the server are killed at random. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import * as path from "node:path";
import { createInterface } from "node:readline";
import { SteleSaver, SteleStore } from "langgraph-checkpoint-stele";
import { expect, test } from "vitest";
import { random } from "../unit/random.js";
import { directory, kill, until } from "./servers.js";

const KILLS = Number(process.env["STELE_KILLS"] ?? 20);
const PROCESSES = 3;

test("nothing that was acknowledged is lost, and nothing is there twice", async () => {
  const { next, seed } = random();
  const dir = directory();
  const said: string[][] = [];
  const running: ChildProcess[] = [];
  let started = 0;
  let failed = "";
  const start = (): void => {
    const worker = spawn(process.execPath, [path.join(import.meta.dirname, "worker.mjs"), dir, `w${started++}`]);
    createInterface({ input: worker.stdout }).on("line", (line) => said.push(line.split(" ")));
    worker.stderr.on("data", (text: Buffer) => (failed += String(text)));
    running.push(worker);
  };
  for (let n = 0; n < PROCESSES; n++) start();
  let servers = 0;
  for (let kills = 0; kills < KILLS; ) {
    const before = said.length;
    const wait = 20 + Math.floor(next() * 100);
    await until(() => said.length > before + wait || failed !== "");
    expect(failed, seed).toBe("");
    kills++;
    if (next() < 0.7) servers += Number(kill(dir));
    else {
      running.splice(Math.floor(next() * running.length), 1)[0]?.kill("SIGKILL");
      start();
    }
  }
  const ends = running.map((worker) => new Promise((resolve) => worker.on("close", resolve)));
  for (const worker of running) worker.kill("SIGKILL");
  await Promise.all(ends);
  expect(servers, seed).toBeGreaterThan(0);

  await using saver = SteleSaver.fromDir(dir, { idleExit: 500 });
  await using store = SteleStore.fromDir(dir, { idleExit: 500 });
  const threads = new Map<string, { id: string; parent: string; value: unknown; writes: unknown }[]>();
  for await (const { threadId } of saver.threads()) {
    const tuples = [];
    for await (const tuple of saver.list({ configurable: { thread_id: threadId, checkpoint_ns: "" } })) {
      const parent = String(tuple.parentConfig?.configurable?.["checkpoint_id"] ?? "");
      tuples.unshift({ id: tuple.checkpoint.id, parent, value: tuple.checkpoint.channel_values["n"], writes: tuple.pendingWrites });
    }
    threads.set(threadId, tuples);
  }
  const number = (id: string): number => Number(id.slice(1));
  const writesOf = (n: number): unknown[] => [1, 2].flatMap((task) => [[`task${task}`, "n", n * task], [`task${task}`, "m", task]]);
  const items = new Map<string, number>();
  const anew = new Map<string, string>();
  for (const [what, thread = "", id = ""] of said) {
    const tuples = threads.get(thread);
    if (what === "put") expect(tuples?.[number(id)], `${thread} ${id} ${seed}`).toMatchObject({ id, value: number(id) });
    if (what === "writes") expect(tuples?.[number(id)]?.writes, `${thread} ${id} ${seed}`).toEqual(writesOf(number(id)));
    if (what === "item") items.set(thread, Number(id));
    if (what === "copy") expect(tuples?.length, `${thread} ${seed}`).toBe(Number(id));
    if (what === "again") anew.set(thread, id);
  }
  for (const [thread, id] of anew) {
    // "" says that the worker was deleting the thread when it was killed.
    if (id !== "") expect(threads.get(thread)?.map((tuple) => tuple.id), `${thread} ${seed}`).toEqual([id]);
  }
  // What was done and not acknowledged is one step of a process, at most.
  for (const [thread, tuples] of threads) {
    if (thread.endsWith(".again")) {
      expect(tuples, `${thread} ${seed}`).toHaveLength(1);
      continue;
    }
    for (const [n, { id, parent }] of tuples.entries()) {
      expect([number(id), parent], `${thread} ${seed}`).toEqual([n, n === 0 ? "" : tuples[n - 1]?.id]);
    }
    if (thread.includes(".")) continue;
    const acknowledged = said.filter(([what, name]) => what === "put" && name === thread).length;
    expect(tuples.length - acknowledged, `${thread} ${seed}`).toBeLessThanOrEqual(1);
  }
  for (const [name, n] of items) {
    const found = Number((await store.get(["last"], name))?.value["n"]);
    expect([n, n + 1], `${name} ${seed}`).toContain(found);
  }
  console.log(`${said.length} calls acknowledged, ${KILLS} kills, ${servers} of them of the server`);
});
