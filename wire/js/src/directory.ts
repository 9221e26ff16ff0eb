import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { ChildProcess } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseURL, reason } from "./address.js";
import type { Address, Endpoint } from "./address.js";
import { findBinary } from "./binary.js";
import { DirectoryError, DirectoryLockedError, InvalidArgumentError, ServerStartError, SteleConnectionError } from "./errors.js";
import { shown } from "./options.js";

/** MANIFEST begins the name of the file that every store has. */
const MANIFEST = "MANIFEST-";

/** LOCKED is the exit code of `stele serve` if somebody else has the directory open. */
const LOCKED = 3;

/** POLL is how long to wait, in milliseconds, before looking at serve.json again. */
const POLL = 5;

const PUT_BACK = "put it back, or make a new saver or store";

/** DirectoryOptions say how the server of a directory is started. */
export interface DirectoryOptions {
  /** create makes the directory if it is not there and its parent is. Default: true. */
  create?: boolean;
  /** idleExit is how long a server stays without a connection, in milliseconds. Default: 60,000. */
  idleExit?: number;
  /** serveArgs are further arguments of `stele serve`. They matter to a server that this client starts. */
  serveArgs?: readonly string[];
  /** binary is the program `stele`. Default: $STELE_BINARY, the installed package's, or the one on PATH. */
  binary?: string;
}

/**
 * Directory is the server of a directory.
 *
 * Whoever finds no server starts one, and the directory's lock lets one of them live.
 * Clients never talk to each other. A server is a process of its own, in a session of
 * its own: it survives the process that started it, and ends when nobody has been
 * connected for a while. A client that loses its server looks for one again, and else
 * starts one.
 */
export class Directory implements Endpoint {
  private readonly path: string;
  private locked = false;
  private started: ChildProcess | undefined; // the last server that was started here
  private seen = false; // there has been a directory
  private store = ""; // the id of the store that was used

  /** A DirectoryError says at once that no server could be started there. */
  constructor(
    directory: string,
    private readonly options: DirectoryOptions,
  ) {
    if (typeof directory !== "string") {
      throw new InvalidArgumentError(`the path of the store is ${shown(directory)}; name its directory by a string`);
    }
    if (directory === "") {
      throw new InvalidArgumentError("the path of the store is empty; name its directory, or . for this one");
    }
    const idle = options.idleExit ?? 0;
    if (!(typeof idle === "number" && idle >= 0 && idle < Infinity)) {
      throw new InvalidArgumentError(`idleExit is ${shown(idle)}; it is milliseconds, or 0 for a server that stays`);
    }
    if (typeof options.serveArgs === "string") {
      throw new InvalidArgumentError(`serveArgs is ${shown(options.serveArgs)}; pass a list of arguments, such as ["--sync", "never"]`);
    }
    try {
      this.path = path.resolve(directory); // the working directory may change between calls
    } catch {
      throw new DirectoryError(`${directory} is in the working directory, which was removed; name a path that begins with /`);
    }
    this.check();
  }

  async address(): Promise<Address | undefined> {
    const said = this.said();
    if (typeof said?.["address"] !== "string") return undefined;
    let token;
    const file = said["token_file"];
    if (typeof file === "string" && file !== "") {
      try {
        token = read(path.resolve(this.path, file)).toString("ascii").trim();
      } catch {
        return undefined; // not written yet, or removed since
      }
    }
    const address = parseURL(said["address"], token);
    if (said["proof"] === true) {
      // A power failure may leave the file empty, and anybody can prove to know no token.
      if (!token) return undefined;
      address.proves = true;
    }
    if (address.kind === "unix") address.path = this.socketPath(address.path);
    return address;
  }

  async start(deadline: number): Promise<void> {
    this.check();
    const { log, name } = this.log();
    try {
      this.started = this.spawn(log);
      await this.ready(this.started, log, deadline);
    } finally {
      fs.closeSync(log);
      try {
        fs.rmSync(name, { force: true }); // where it could not be removed before
      } catch {
        // The server has it open.
      }
    }
  }

  /**
   * log is a file for what the server says, without a name where that is possible. It is in the
   * directory of the store where no other can be written to: the root of a container may be
   * read-only.
   */
  private log(): { log: number; name: string } {
    let cause: unknown;
    for (const directory of [os.tmpdir(), this.path]) {
      const name = path.join(directory, `serve.start-${randomBytes(8).toString("hex")}`);
      try {
        if (directory === this.path) fs.mkdirSync(directory, { recursive: true, mode: 0o750 });
        const log = fs.openSync(name, "wx+", 0o600);
        try {
          fs.rmSync(name);
        } catch {
          // Windows removes no file that somebody has open.
        }
        return { log, name };
      } catch (error) {
        cause = error;
      }
    }
    throw new DirectoryError(`${this.path} cannot be written to (${reason(cause)}); check who may`, { cause });
  }

  greeted(storeID: string): void {
    if (this.store !== "" && storeID !== "" && storeID !== this.store) {
      const what = `${this.path} holds another store than the one that was used, which was moved away or replaced`;
      throw new DirectoryError(`${what}; ${PUT_BACK}`);
    }
    this.store = storeID || this.store;
  }

  unreachable(cause: unknown): Error {
    if (this.locked) {
      return new DirectoryLockedError(`another program has ${this.path} open, and no server answers there`, { cause });
    }
    const { exitCode = null, signalCode = null } = this.started ?? {};
    const end = exitCode !== null ? `with code ${exitCode}` : signalCode !== null && `by ${signalCode}`;
    const why = end ? `stele serve, which was started here, ended by itself, ${end}` : reason(cause);
    return new SteleConnectionError(`the server of ${this.path} does not answer: ${why}`, { cause });
  }

  /** check refuses what no server could be started on, in words about paths. */
  private check(): void {
    let wrong: string | undefined;
    try {
      wrong = this.wrong();
    } catch (error) {
      throw new DirectoryError(`${this.path} cannot be looked at (${reason(error)}); check the path`, { cause: error });
    }
    if (wrong !== undefined) throw new DirectoryError(wrong);
  }

  private wrong(): string | undefined {
    const found = fs.statSync(this.path, { throwIfNoEntry: false });
    if (found?.isDirectory()) {
      this.seen = true;
      // A store that was restored here has no LOCK before it is opened.
      if (this.store !== "" && !fs.readdirSync(this.path).some((name) => name.startsWith(MANIFEST))) {
        return `the store in ${this.path} is gone; ${PUT_BACK}`;
      }
      return undefined;
    }
    if (found) return `${this.path} is a file; name a directory for the store`;
    // Another client may have created a directory meanwhile.
    if (fs.lstatSync(this.path, { throwIfNoEntry: false })?.isSymbolicLink()) {
      return `${this.path} is a link that leads to nothing; mend it, or remove it`;
    }
    // A store that was moved away is not replaced by an empty one.
    if (this.seen) return `${this.path} is gone; ${PUT_BACK}`;
    if (this.options.create === false) return `${this.path} does not exist; create it, or leave out create: false`;
    const parent = path.dirname(this.path);
    if (fs.statSync(parent, { throwIfNoEntry: false })?.isDirectory()) return undefined;
    return `${parent} does not exist; create it, or check the path ${this.path}`;
  }

  /** said is what serve.json says; undefined if it is not there, or not whole yet. */
  private said(): Record<string, unknown> | undefined {
    try {
      const said: unknown = JSON.parse(read(path.join(this.path, "serve.json")).toString("utf8"));
      this.seen = true;
      return typeof said === "object" && said !== null ? (said as Record<string, unknown>) : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * socketPath is the path to connect to. A socket's path has at most about 100 bytes, so
   * one from the working directory is taken if it is the shorter one.
   */
  private socketPath(socket: string): string {
    const whole = path.resolve(this.path, socket);
    if (Buffer.byteLength(whole) <= 100) return whole;
    const short = path.relative(process.cwd(), whole);
    return short.length < whole.length ? short : whole;
  }

  private spawn(log: number): ChildProcess & { failed?: Error } {
    const idle = this.options.idleExit ?? 60_000;
    const args = ["serve", this.path, `--idle-exit=${idle}ms`, ...(this.options.serveArgs ?? [])];
    const server: ChildProcess & { failed?: Error } = spawn(findBinary(this.options.binary), args, {
      cwd: path.dirname(this.path),
      detached: true,
      stdio: ["ignore", "ignore", log],
      windowsHide: true,
    });
    server.on("error", (error) => (server.failed = error));
    server.unref();
    return server;
  }

  /** ready returns when the server serves, or when another one has the lock. */
  private async ready(server: ChildProcess & { failed?: Error }, log: number, deadline: number): Promise<void> {
    for (;;) {
      if (server.failed) {
        throw new ServerStartError(`${server.spawnfile} cannot be started: ${server.failed.message}`, {
          cause: server.failed,
        });
      }
      if (server.exitCode === LOCKED) {
        this.locked = true; // by a server that starts, or by something else
        return;
      }
      // One that was told to end, or killed, says nothing about the directory.
      if (server.exitCode === 0 || server.signalCode !== null) return;
      if (server.exitCode !== null) {
        throw new DirectoryError(`stele serve ${this.path} ended with code ${server.exitCode}: ${tail(log)}`);
      }
      if (this.said()?.["pid"] === server.pid) {
        this.locked = false;
        this.seen = true;
        return;
      }
      if (performance.now() > deadline) {
        server.kill();
        if (this.locked) return; // the attempts before this one have said why
        throw new ServerStartError(
          `stele serve ${this.path} was not ready in time; raise the option connectTimeout: ${tail(log)}`,
        );
      }
      await sleep(POLL);
    }
  }
}

/**
 * read is the beginning of a regular file. Of something else in its place, reading may have no
 * end, and opening may wait.
 */
function read(name: string): Buffer {
  const file = fs.openSync(name, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0));
  try {
    if (!fs.fstatSync(file).isFile()) throw new Error(`${name} is no regular file`);
    const bytes = Buffer.alloc(1 << 16);
    return bytes.subarray(0, fs.readSync(file, bytes));
  } finally {
    fs.closeSync(file);
  }
}

/** tail is the end of what a server wrote to its log. */
function tail(log: number): string {
  const size = fs.fstatSync(log).size;
  const bytes = Buffer.alloc(Math.min(size, 2000));
  fs.readSync(log, bytes, 0, bytes.length, size - bytes.length);
  return bytes.toString().trim() || "it said nothing";
}
