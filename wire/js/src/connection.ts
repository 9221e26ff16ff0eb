import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import * as net from "node:net";
import * as tls from "node:tls";
import type { Address } from "./address.js";
import { showAddress } from "./address.js";
import { AuthError, ClosingError, ProtocolError, SteleConnectionError, SteleTimeoutError, VersionError } from "./errors.js";
import { MAX_FRAME, PROTOCOL, VERSION, FrameReader, decode, errorOf, isFields, notification, request } from "./wire.js";
import type { Fields } from "./wire.js";

/** BATCHES is how many batches of a stream a server sends unasked. */
export const BATCHES = 4;

/** LostError: the connection ended. What was under way may have had its effect. */
export class LostError extends Error {
  override readonly name = "LostError";
}

/** Hello is what a server says of itself. */
export interface Hello {
  server: string;
  store: string;
  storeID: string; // empty: the server does not say
  methods: ReadonlySet<string>;
  maxFrame: number;
  maxCalls: number;
  callSlots: number;
}

/**
 * prove is the proof of one side that it knows the token of an address. A server that was
 * killed leaves its address in the directory, and another program may listen there: it
 * must learn neither the token nor what is stored.
 */
export function prove(side: "client" | "server", address: Address, challenge: string): string {
  const at = address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
  return createHmac("sha256", address.token ?? "")
    .update([side, at, challenge].join("\0"))
    .digest("hex");
}

/** proven reports whether the answer to hello has the proof that is wanted. */
function proven(hello: unknown, wanted: string): boolean {
  const proof = isFields(hello) ? hello["proof"] : undefined;
  return typeof proof === "string" && proof.length === wanted.length && timingSafeEqual(Buffer.from(proof, "latin1"), Buffer.from(wanted, "latin1"));
}

/** stranger is the error where a server does not know the token of the directory. */
function stranger(address: Address): LostError {
  return new LostError(`another program listens at ${showAddress(address)}, which the server left`);
}

/** Call is a request that has been sent. */
export interface Call {
  /** answer is the result. It rejects with the server's error, or with a LostError. */
  answer: Promise<unknown>;
  /** cancel asks the server to end the call. Its answer comes all the same. */
  cancel(): void;
  /** more allows the server another batch of the stream. */
  more(): void;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
  items?: ((items: unknown[]) => void) | undefined;
  givenUp: boolean; // nobody waits for the answer any more
}

/**
 * Connection is one connection to a server, which has said hello. Any number of calls
 * may be under way on it. While there are none, it does not keep the process alive.
 */
export class Connection {
  private readonly pending = new Map<number, Pending>();
  private readonly frames = new FrameReader();
  private nextID = 0;
  private lost: Error | undefined;
  private closing = false; // the server said so, and takes no further calls
  private silent = false; // nothing was heard for as long as a call may take
  private corked = false;
  private heard = performance.now();
  private said: Hello = { server: "", store: "", storeID: "", methods: new Set(), maxFrame: MAX_FRAME, maxCalls: 1, callSlots: 1 };

  private constructor(private readonly socket: net.Socket) {
    socket.on("data", (chunk: Buffer) => this.received(chunk));
    socket.on("error", (error) => this.end(error));
    socket.on("close", () => this.end(new Error("the server closed the connection")));
  }

  /**
   * open connects and says hello, within so many milliseconds. It rejects with a LostError
   * if nobody is there, with a SteleTimeoutError if the server says nothing, and with its
   * error if it refuses.
   */
  static async open(address: Address, options: { tls?: tls.ConnectionOptions; timeout: number }): Promise<Connection> {
    const socket = await connect(address, options);
    const connection = new Connection(socket);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      socket.destroy();
    }, options.timeout);
    try {
      const challenge = address.proves ? randomBytes(32).toString("hex") : undefined;
      const hello = await connection.request("hello", {
        protocol: PROTOCOL,
        client: `langgraph-checkpoint-stele/${VERSION} node/${process.versions.node}`,
        ...(challenge === undefined ? { token: address.token } : { challenge, proof: prove("client", address, challenge) }),
      }).answer;
      if (challenge !== undefined && !proven(hello, prove("server", address, challenge))) throw stranger(address);
      connection.said = parseHello(hello);
    } catch (error) {
      connection.close();
      if (address.proves && error instanceof AuthError) throw stranger(address);
      if (!late) throw error;
      const waited = `${showAddress(address)} did not say hello within ${Math.round(options.timeout)} ms`;
      throw new SteleTimeoutError(`${waited}: the server is stopped or busy, or the option connectTimeout is too short`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    return connection;
  }

  /** hello is what the server said of itself. */
  get hello(): Hello {
    return this.said;
  }

  /** ended reports whether no further call can be made. */
  get ended(): boolean {
    return this.gone || this.closing || this.silent;
  }

  /** gone reports whether the connection has ended, and with it all its calls. */
  get gone(): boolean {
    return this.lost !== undefined;
  }

  /** request sends a request. Items of a stream are given to the function items. */
  request(method: string, params: Fields, items?: (items: unknown[]) => void): Call {
    while (this.pending.has(this.nextID)) this.nextID = (this.nextID + 1) >>> 0;
    const id = this.nextID;
    this.nextID = (id + 1) >>> 0;
    const answer = new Promise<unknown>((resolve, reject) => {
      if (this.lost) throw new LostError(this.lost.message);
      const bytes = request(id, method, params, this.said.maxFrame);
      this.pending.set(id, { resolve, reject, items, givenUp: false });
      if (this.pending.size === 1) this.socket.ref();
      this.send(bytes);
    });
    return {
      answer,
      cancel: () => {
        this.tell(id, "cancel", { call: id });
        const pending = this.pending.get(id);
        if (pending) pending.givenUp = true;
        this.retire();
      },
      more: () => this.tell(id, "more", { call: id, batches: 1 }),
    };
  }

  /** close ends the connection. Calls that are under way reject with a LostError. */
  close(): void {
    this.end(new Error("the connection was closed"));
    this.socket.destroy();
  }

  private tell(id: number, method: string, params: Fields): void {
    if (!this.lost && this.pending.has(id)) this.send(notification(method, params));
  }

  /** send writes what one turn of the event loop sends at once. */
  private send(bytes: Uint8Array): void {
    if (!this.corked) {
      this.corked = true;
      this.socket.cork();
      process.nextTick(() => {
        this.corked = false;
        this.socket.uncork();
      });
    }
    this.socket.write(bytes);
  }

  /**
   * expire leaves the connection if nothing was heard since then. A server that is frozen, or
   * a network that is gone, ends none itself. The server may also be slow, or its answers not
   * be read yet: calls to come use another connection, and those under way go on.
   */
  expire(since: number): void {
    if (this.heard > since) return;
    this.silent = true;
    this.retire();
  }

  /** retire ends a silent connection when the last one has given up waiting on it. */
  private retire(): void {
    if (!this.silent || ![...this.pending.values()].every(({ givenUp }) => givenUp)) return;
    this.end(new Error("the server says nothing"));
    this.socket.destroy();
  }

  private received(chunk: Buffer): void {
    if (this.lost) return;
    this.heard = performance.now();
    try {
      for (const body of this.frames.push(chunk)) this.dispatch(body);
    } catch (error) {
      // Nothing that follows can be trusted to belong to the call it names.
      const failed = error instanceof Error ? error : new Error(String(error));
      this.end(failed);
      this.socket.destroy();
    }
  }

  private dispatch(body: Uint8Array): void {
    const message = decode(body);
    if (message.kind === "notification") {
      const { call, items } = message.params;
      if (message.method === "items" && typeof call === "number" && Array.isArray(items)) {
        this.pending.get(call)?.items?.(items);
      }
      return;
    }
    const pending = this.pending.get(message.id);
    if (!pending) throw new ProtocolError(`the server answered request ${message.id}, which was not asked`);
    this.pending.delete(message.id);
    if (this.pending.size === 0) this.socket.unref();
    this.retire();
    if (message.error === null || message.error === undefined) return pending.resolve(message.result);
    const error = errorOf(message.error);
    if (error instanceof ClosingError) this.closing = true;
    pending.reject(error);
  }

  private end(cause: Error): void {
    if (this.lost) return;
    this.lost = cause;
    const pending = [...this.pending.values()];
    this.pending.clear();
    this.socket.unref();
    for (const { reject } of pending) {
      reject(cause instanceof ProtocolError ? cause : new LostError(cause.message, { cause }));
    }
  }
}

function connect(address: Address, options: { tls?: tls.ConnectionOptions; timeout: number }): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    let socket: net.Socket;
    if (address.kind === "unix") socket = net.connect({ path: address.path });
    else if (address.kind === "tcp") socket = net.connect({ host: address.host, port: address.port, noDelay: true });
    else {
      const name = net.isIP(address.host) === 0 ? { servername: address.host } : {};
      socket = tls.connect({ ...name, ...options.tls, host: address.host, port: address.port });
      socket.setNoDelay(true);
    }
    const timer = setTimeout(
      () => socket.destroy(new Error(`${showAddress(address)} does not take a connection`)),
      options.timeout,
    );
    const failed = (error: Error & { code?: string }): void => {
      clearTimeout(timer);
      // A certificate does not get better by asking again.
      if (address.kind === "tls" && /CERT|VERIFY|SSL|TLS|EPROTO/.test(error.code ?? "")) {
        reject(new SteleConnectionError(`no TLS with ${showAddress(address)}: ${error.message}`, { cause: error }));
      } else reject(new LostError(error.message, { cause: error }));
    };
    socket.once("error", failed);
    socket.once(address.kind === "tls" ? "secureConnect" : "connect", () => {
      clearTimeout(timer);
      socket.off("error", failed);
      resolve(socket);
    });
  });
}

function parseHello(answer: unknown): Hello {
  if (!isFields(answer)) throw new ProtocolError("the server's answer to hello is of another form");
  if (answer["protocol"] !== PROTOCOL) {
    throw new VersionError(`the server speaks protocol ${String(answer["protocol"])}, and this client ${PROTOCOL}`);
  }
  const positive = (name: string, otherwise: number): number => {
    const n = answer[name];
    return typeof n === "number" && n > 0 ? n : otherwise;
  };
  const methods = answer["methods"];
  return {
    server: String(answer["server"] ?? ""),
    store: String(answer["store"] ?? ""),
    storeID: String(answer["store_id"] ?? ""),
    methods: new Set(Array.isArray(methods) ? methods.map(String) : []),
    maxFrame: Math.min(positive("max_frame", MAX_FRAME), MAX_FRAME),
    maxCalls: positive("max_calls", 1),
    callSlots: positive("call_slots", 1),
  };
}
