/** Writes to a store until it is killed, and says each call that was acknowledged: worker.mjs DIR NAME */
import { SteleSaver, SteleStore } from "langgraph-checkpoint-stele";

const [dir, name] = process.argv.slice(2);
const options = { idleExit: 2000 };
const saver = SteleSaver.fromDir(dir, options);
const store = SteleStore.fromDir(dir, options);
const meta = { source: "loop", step: 0, parents: {} };
const say = (...words) => process.stdout.write(`${words.join(" ")}\n`);
const checkpoint = (id, n) => ({
  v: 4, id, ts: "2026-01-01T00:00:00Z", channel_values: { n }, channel_versions: { n: n + 1 }, versions_seen: {},
});

let config = { configurable: { thread_id: name, checkpoint_ns: "" } };
for (let n = 0; ; n++) {
  const id = `c${String(n).padStart(6, "0")}`;
  config = await saver.put(config, checkpoint(id, n), meta, { n: n + 1 });
  say("put", name, id);
  await Promise.all([1, 2].map((task) => saver.putWrites(config, [["n", n * task], ["m", task]], `task${task}`)));
  say("writes", name, id);
  await store.put(["last"], name, { n });
  say("item", name, n);
  if (n % 5 === 4) {
    const copy = `${name}.${n}`;
    await saver.copyThread(name, copy);
    say("copy", copy, n + 1);
    // A delete that is asked again must not take what is put after it.
    const again = { configurable: { thread_id: `${name}.again`, checkpoint_ns: "" } };
    say("again", `${name}.again`, "");
    await saver.deleteThread(`${name}.again`);
    await saver.put(again, checkpoint(id, n), meta, { n: n + 1 });
    say("again", `${name}.again`, id);
  }
}
