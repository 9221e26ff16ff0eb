import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectionOptions as TLSOptions } from "node:tls";
import { Remote, reason } from "./address.js";
import type { Endpoint } from "./address.js";
import { Connection, LostError } from "./connection.js";
import type { Call, Hello } from "./connection.js";
import { Directory } from "./directory.js";
import type { DirectoryOptions } from "./directory.js";
import { ClosedError, ClosingError, ProtocolError, SteleConnectionError, SteleError, SteleTimeoutError } from "./errors.js";
import { milliseconds } from "./options.js";
import type { Fields } from "./wire.js";

/** ClientOptions bound how long calls take. */
export interface ClientOptions {
  /** timeout is how long a call may take in all, in milliseconds; Infinity is 24 days. Default: 60,000. */
  timeout?: number;
  /** connectTimeout is how long to look for a server, and to start one, in milliseconds. Default: 15,000. */
  connectTimeout?: number;
}

/** RemoteOptions say how to reach a server that somebody else runs. */
export interface RemoteOptions extends ClientOptions {
  /** token is what the server asks for. Default: $STELE_TOKEN. */
  token?: string;
  /** tls are options of `node:tls`, such as `ca`, for an address that begins with `tls:`. */
  tls?: TLSOptions;
}

/** LocalOptions are those of a directory's server. */
export interface LocalOptions extends ClientOptions, DirectoryOptions {}

// The names of the options that there are.
const client = { timeout: true, connectTimeout: true } as const satisfies Record<keyof ClientOptions, true>;
export const REMOTE: Record<keyof RemoteOptions, true> = { token: true, tls: true, ...client };
export const LOCAL: Record<keyof LocalOptions, true> = { create: true, idleExit: true, serveArgs: true, binary: true, ...client };

/** clientOfDirectory is a client of the server of a directory. */
export function clientOfDirectory(directory: string, options: LocalOptions): Client {
  return new Client(new Directory(directory, options), options);
}

/** clientOfURL is a client of a server that somebody else runs. */
export function clientOfURL(url: string, options: RemoteOptions): Client {
  return new Client(new Remote(url, options), options);
}

/**
 * Client makes calls to one store, over one connection. A connection that takes no further
 * calls is replaced, and stays while some are under way on it.
 *
 * If the connection is lost, it connects again, and asks again what was under way. A
 * call that writes has an id for that, so it has the effect of one however often it is
 * asked: see "A call that is asked again" in docs/wire.md.
 */
export class Client {
  private readonly timeout: number;
  private readonly connectTimeout: number;
  private connections: Connection[] = []; // the first is the one in use
  private connecting: Promise<Connection> | undefined;
  private readonly slots = new Slots();
  private readonly streams = new Semaphore(1);
  private closed = false;

  constructor(
    private readonly endpoint: Endpoint,
    options: ClientOptions,
  ) {
    this.timeout = milliseconds("timeout", options.timeout, 60_000);
    this.connectTimeout = milliseconds("connectTimeout", options.connectTimeout, 15_000);
  }

  /** hello connects, unless that has been done, and returns what the server says of itself. */
  async hello(): Promise<Hello> {
    return (await this.connection(this.deadline())).hello;
  }

  /** read makes a call that changes nothing. */
  async read(method: string, params: Fields): Promise<unknown> {
    return this.ask(method, params, this.deadline());
  }

  /** write makes a call that has the effect of one, also if it must be asked again. */
  async write(method: string, params: Fields): Promise<unknown> {
    const deadline = this.deadline();
    const { hello } = await this.connection(deadline);
    const slot = await this.slots.take(hello.callSlots, deadline);
    const call = slot.call();
    // A call that was given up may still be running, so its slot has to wait for it.
    let running: Promise<unknown> = Promise.resolve();
    try {
      return await this.ask(method, { ...params, call }, deadline, (answer) => (running = answer));
    } finally {
      running.then(
        () => this.slots.release(slot, true),
        (error: unknown) => this.slots.release(slot, !(error instanceof LostError || error instanceof ProtocolError)),
      );
    }
  }

  /**
   * stream makes a call that is answered by batches. It ends the call when its consumer
   * stops. If the connection is lost, it asks again with what params says then: for what
   * the consumer does not have yet.
   */
  async *stream(method: string, params: () => Fields): AsyncGenerator<unknown, void, undefined> {
    const { hello } = await this.connection(this.deadline());
    // Listings that nobody reads must leave room for calls.
    this.streams.limit = Math.max(1, hello.maxCalls >> 1);
    if (!(await this.streams.take(this.deadline()))) {
      throw new SteleTimeoutError(`${this.streams.limit} listings are open that nobody reads; read them, or end them`);
    }
    try {
      let deadline = this.deadline();
      for (let asked = 0; ; asked++) {
        try {
          for await (const item of this.batches(await this.connection(deadline), method, params())) {
            yield item;
            deadline = this.deadline();
          }
          return;
        } catch (error) {
          await this.again(error, asked, deadline);
        }
      }
    } finally {
      this.streams.release();
    }
  }

  /** close ends the connection. Calls that are under way reject with a ClosedError. */
  close(): void {
    this.closed = true;
    for (const connection of this.connections) connection.close();
  }

  private async *batches(connection: Connection, method: string, params: Fields): AsyncGenerator<unknown, void, undefined> {
    const queue: unknown[][] = [];
    let wake = (): void => {};
    let ended: { error?: unknown } | undefined;
    const call = connection.request(method, params, (items) => {
      queue.push(items);
      wake();
    });
    call.answer.then(
      () => {
        ended = {};
        wake();
      },
      (error: unknown) => {
        ended = { error };
        wake();
      },
    );
    try {
      for (;;) {
        const batch = queue.shift();
        if (batch) {
          yield* batch;
          if (!ended) call.more();
        } else if (ended) {
          if ("error" in ended) throw ended.error;
          return;
        } else {
          const next = new Promise<void>((resolve) => (wake = resolve));
          const deadline = this.deadline();
          if (!(await within(next, deadline))) {
            connection.expire(deadline - this.timeout);
            throw this.late(method);
          }
        }
      }
    } finally {
      if (!ended) call.cancel();
    }
  }

  private async ask(
    method: string,
    params: Fields,
    deadline: number,
    began: (answer: Promise<unknown>) => void = () => {},
  ): Promise<unknown> {
    for (let asked = 0; ; asked++) {
      const connection = await this.connection(deadline);
      const call = connection.request(method, asked > 0 && "call" in params ? { ...params, again: true } : params);
      began(call.answer);
      try {
        return await this.answer(method, call, deadline, connection);
      } catch (error) {
        await this.again(error, asked, deadline);
      }
    }
  }

  /** again returns when a call may be asked again, and throws what its caller is told if not. */
  private async again(error: unknown, asked: number, deadline: number): Promise<void> {
    if (!(error instanceof LostError) && !(error instanceof ClosingError)) throw error;
    if (this.closed) throw new ClosedError("the client was closed", { cause: error });
    // A server that dies of this very call is not asked as fast as it starts.
    const pause = asked === 0 ? 0 : Math.min(5 << Math.min(asked, 7), 500);
    if (performance.now() + pause > deadline) {
      throw new SteleConnectionError(`the connection was lost: ${reason(error)}`, { cause: error });
    }
    await sleep(pause);
  }

  private async answer(method: string, call: Call, deadline: number, connection: Connection): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => {
          call.cancel();
          reject(this.late(method));
          connection.expire(deadline - this.timeout);
        },
        Math.max(0, deadline - performance.now()),
      );
    });
    try {
      return await Promise.race([call.answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private deadline(): number {
    return performance.now() + this.timeout;
  }

  private late(method: string): SteleError {
    const why = "the server is stopped or busy, or the option timeout is too short";
    return new SteleTimeoutError(`${method} was not answered within ${this.timeout} ms: ${why}`);
  }

  /** connection is the one in use, or a new one. All who need one wait for the same. */
  private async connection(deadline: number): Promise<Connection> {
    if (this.closed) throw new ClosedError("the client was closed");
    const current = this.connections[0];
    if (current && !current.ended) return current;
    const connecting = (this.connecting ??= this.connect().finally(() => (this.connecting = undefined)));
    if (!(await within(connecting, deadline))) throw this.late("the request for a connection");
    return connecting;
  }

  private async connect(): Promise<Connection> {
    const deadline = performance.now() + this.connectTimeout;
    let cause: unknown;
    for (let tried = 0; !this.closed; tried++) {
      const address = await this.endpoint.address();
      if (address) {
        try {
          const timeout = Math.max(1, deadline - performance.now());
          const options = this.endpoint.tls ? { tls: this.endpoint.tls, timeout } : { timeout };
          const connection = await Connection.open(address, options);
          try {
            this.endpoint.greeted(connection.hello.storeID);
          } catch (error) {
            connection.close();
            throw error;
          }
          if (!this.closed) {
            this.connections = [connection, ...this.connections.filter(({ gone }) => !gone)];
            return connection;
          }
          connection.close();
          break;
        } catch (error) {
          // A later attempt is cut off by the deadline: what the earlier ones met says more.
          const cutOff = error instanceof SteleTimeoutError || (error instanceof LostError && performance.now() > deadline - 5); // a timer may be early
          if (cutOff && cause) throw this.endpoint.unreachable(cause);
          if (!(error instanceof LostError) && !(error instanceof ClosingError)) throw error;
          cause = error;
        }
      }
      if (performance.now() > deadline) throw this.endpoint.unreachable(cause ?? new Error("there is no server"));
      await this.endpoint.start(deadline);
      // Servers of other clients may be starting; they are found by looking again.
      if (tried > 0) await sleep(Math.min(5 << Math.min(tried, 5), 100));
    }
    throw new ClosedError("the client was closed");
  }
}

/** within waits for a promise until the deadline, and reports whether it was in time. */
async function within(promise: Promise<unknown>, deadline: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.max(0, deadline - performance.now()));
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Slot is one of the places in which a server remembers a client's last call. */
class Slot {
  private number = 0;

  constructor(
    readonly client: Uint8Array,
    private readonly index: number,
  ) {}

  /** call is the id of the next call that has the slot. */
  call(): [Uint8Array, number, number] {
    return [this.client, this.index, ++this.number];
  }
}

/**
 * Slots gives each call that writes a slot of its own while it is under way. The slot of
 * a call whose end nobody knows is not used again. When too many are gone, the client
 * takes a new name, and with it new slots.
 */
class Slots {
  private client = randomBytes(16);
  private made = 0;
  private free: Slot[] = [];
  private readonly places = new Semaphore(1);

  async take(limit: number, deadline: number): Promise<Slot> {
    this.places.limit = limit;
    if (!(await this.places.take(deadline))) throw new SteleTimeoutError(`${limit} calls that write are under way`);
    const slot = this.free.pop();
    if (slot) return slot;
    if (this.made >= limit) {
      this.client = randomBytes(16);
      this.made = 0;
    }
    return new Slot(this.client, this.made++);
  }

  /** release ends the call that has the slot. Known says that it is not running any more. */
  release(slot: Slot, known: boolean): void {
    if (known && slot.client === this.client) this.free.push(slot);
    this.places.release();
  }
}

/** Semaphore lets so many in at once. */
class Semaphore {
  private inside = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(public limit: number) {}

  /** take reports whether there was room before the deadline. */
  async take(deadline: number): Promise<boolean> {
    if (this.inside < this.limit) {
      this.inside++;
      return true;
    }
    let enter = (): void => {};
    const entered = new Promise<void>((resolve) => (enter = resolve));
    this.waiting.push(enter);
    if (await within(entered, deadline)) return true;
    const at = this.waiting.indexOf(enter);
    if (at < 0) return true; // let in at the last moment
    this.waiting.splice(at, 1);
    return false;
  }

  release(): void {
    const next = this.waiting.shift();
    if (next) next(); // the place is handed on
    else this.inside--;
  }
}
