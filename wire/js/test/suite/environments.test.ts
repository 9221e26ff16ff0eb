/** Containers: nothing can be written to but the volume, and little else is there. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { expect, test } from "vitest";
import { binary, directory, kill } from "./servers.js";

// The root becomes read-only, with all that is mounted in it, and the volume stays.
const readOnly = `
set -e
mount --bind "$1" "$1"
while read -r _ at _ options _; do
	case $at in "$1" | /proc* | /sys* | /dev*) continue ;; esac
	mount -o remount,bind,ro "$at" 2>/dev/null || true
done </proc/mounts
shift
exec "$@"
`;

const program = `
import * as fs from "node:fs";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { SteleSaver, SteleStore } from "langgraph-checkpoint-stele";

for (const tmp of ["/tmp", "/var/tmp", "/"]) {
  let written = true;
  try {
    fs.writeFileSync(tmp + "/stele-test", "");
  } catch {
    written = false;
  }
  if (written) throw new Error(tmp + " can be written to");
}
const [directory, binary] = process.argv.slice(1);
const at = { configurable: { thread_id: "t", checkpoint_ns: "" } };
for (let step = 0; step < 2; step++) {
  const saver = SteleSaver.fromDir(directory, { binary, idleExit: 200 });
  await saver.put(at, { ...emptyCheckpoint(), id: "c" + step }, { source: "loop", step, parents: {} }, {});
  if ((await saver.getTuple(at))?.checkpoint.id !== "c" + step) throw new Error("it is not there");
  const store = SteleStore.fromDir(directory, { binary, idleExit: 200 });
  await store.put(["a"], "k", { step });
  if ((await store.get(["a"], "k"))?.value.step !== step) throw new Error("the item is not there");
  store.stop();
  await saver.close();
}
`;

const mounts = process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "mount", "--bind", "/", "/"]).status === 0;

test.runIf(mounts).each(["root", "without a passwd entry"])("nothing is writable but the volume, for user %s", (user) => {
  for (const place of ["", "store", "x".repeat(120)]) {
    const volume = directory();
    fs.mkdirSync(path.join(volume, "lost+found"), { recursive: true });
    let command = [process.execPath, "--input-type=module", "-e", program, path.join(volume, place), path.resolve(binary())];
    if (user !== "root") {
      fs.chownSync(volume, 70001, 70001);
      // Node may lie where only root looks: it may read all, and write nothing.
      const caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
      command = ["setpriv", "--reuid=70001", "--regid=70001", "--clear-groups", ...caps, ...command];
    }
    const unshare = ["--mount", "sh", "-c", readOnly, "sh", volume, ...command];
    const ran = spawnSync("unshare", unshare, { env: { PATH: process.env["PATH"] }, encoding: "utf8", timeout: 100_000 });
    expect(ran.stderr).toBe("");
    expect(ran.status).toBe(0);
    kill(path.join(volume, place));
    const left = fs.readdirSync(path.join(volume, place)).filter((name) => name.startsWith("serve.start"));
    expect(left).toEqual([]);
  }
});

const elsewhere = `
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { SteleSaver } from "langgraph-checkpoint-stele";

const [directory, binary] = process.argv.slice(1);
const at = { configurable: { thread_id: "t", checkpoint_ns: "" } };
fs.mkdirSync(directory + "/gone", { recursive: true });
for (const name of ["serve.json", "serve.token"]) {
  for (const kind of ["a pipe", "a link to what has no end"]) {
    const dir = directory + "/" + name + kind;
    fs.mkdirSync(dir);
    if (name === "serve.token") fs.writeFileSync(dir + "/serve.json", JSON.stringify({ address: "tcp:127.0.0.1:1", token_file: name }));
    if (kind === "a pipe") execFileSync("mkfifo", [dir + "/" + name]);
    else fs.symlinkSync("/dev/zero", dir + "/" + name);
    const saver = SteleSaver.fromDir(dir, { binary, idleExit: 200 });
    if ((await saver.getTuple(at)) !== undefined) throw new Error("what is it?");
    await saver.close();
  }
}
process.chdir(directory + "/gone");
fs.rmdirSync(directory + "/gone");
const saver = SteleSaver.fromDir(directory + "/store", { binary, idleExit: 200 });
if ((await saver.getTuple(at)) !== undefined) throw new Error("what is it?");
await saver.close();
try {
  SteleSaver.fromDir("store", { binary });
} catch (error) {
  if (error.name !== "DirectoryError" || !error.message.includes("begins with /")) throw error;
  process.exit(0);
}
throw new Error("a working directory that is gone was taken for one");
`;

// A pipe would stop the whole program.
test.runIf(process.platform !== "win32")("other things have the names of files, and the working directory is gone", () => {
  const ran = spawnSync(process.execPath, ["--input-type=module", "-e", elsewhere, directory(), path.resolve(binary())], { encoding: "utf8", timeout: 60_000 });
  expect(ran.stderr).toBe("");
  expect(ran.status).toBe(0);
});
