import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as os from "node:os";
import * as path from "node:path";
import { expect } from "vitest";

const root = fs.mkdtempSync(path.join(os.tmpdir(), "stele-js-"));
process.on("exit", () => fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 }));

let made = 0;

/** directory is a path where a store may be made. */
export function directory(): string {
  return path.join(root, String(++made));
}

/** serverOf is the process id of a directory's server; undefined if there is none. */
export function serverOf(dir: string): number | undefined {
  try {
    return (JSON.parse(fs.readFileSync(path.join(dir, "serve.json"), "utf8")) as { pid: number }).pid;
  } catch {
    return undefined;
  }
}

/** kill kills the server of a directory, and reports whether there was one. */
export function kill(dir: string): boolean {
  const pid = serverOf(dir);
  if (pid === undefined) return false;
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}

/** killer kills the server of a saver's directory before every nth call of a method. */
export function killer(n: number): { wrap<T extends object>(saver: T, dir: string): T; check(): void } {
  let calls = 0;
  let kills = 0;
  return {
    wrap: (saver, dir) =>
      new Proxy(saver, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name, target);
          if (typeof member !== "function" || !methods.has(String(name))) return member;
          return (...args: unknown[]): unknown => {
            if (++calls % n === 0 && kill(dir)) kills++;
            return member.apply(target, args);
          };
        },
      }),
    check: () => {
      console.log(`${calls} calls, ${kills} kills`);
      expect(kills).toBeGreaterThan(calls / n / 2);
    },
  };
}

const methods = new Set(["getTuple", "list", "put", "putWrites", "deleteThread", "getDeltaChannelHistory"]);

/** binary is the program that the tests run: that of the package, or $STELE_BINARY. */
export function binary(): string {
  const given = process.env["STELE_BINARY"];
  if (given !== undefined && given !== "") return given;
  const pack = `langgraph-checkpoint-stele-${process.platform}-${process.arch}/package.json`;
  return path.join(path.dirname(createRequire(import.meta.url).resolve(pack)), "bin", "stele");
}

/** until waits for something that will happen; the time limit of the test ends it. */
export async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** ended reports whether a process has ended. */
export function ended(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // One that this process has started stays a zombie until its end is taken notice of.
    return fs.readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return true;
  }
}
