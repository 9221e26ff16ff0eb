/** Where a server is. */
import type { ConnectionOptions as TLSOptions } from "node:tls";
import { InvalidArgumentError, SteleConnectionError } from "./errors.js";
import { shown } from "./options.js";

/** Address says where to connect, and with what. */
export type Address = ({ kind: "unix"; path: string } | { kind: "tcp" | "tls"; host: string; port: number }) & {
  token?: string;
  /** proves: the server proves that it knows the token, and is not sent it. */
  proves?: true;
};

/** Endpoint is where a client finds its server. */
export interface Endpoint {
  /** tls are the options of connections to a `tls:` address. */
  readonly tls?: TLSOptions;
  /** address is where the server is, as far as one can tell; undefined if there is none. */
  address(): Promise<Address | undefined>;
  /**
   * start has a server, if that is for this client to do. It returns when there is one,
   * or when somebody else starts one. The deadline is by performance.now().
   */
  start(deadline: number): Promise<void>;
  /** greeted refuses a server that has another store than the one used before. */
  greeted(storeID: string): void;
  /** unreachable is the error when the server could not be reached in time. */
  unreachable(cause: unknown): Error;
}

/**
 * parseURL is the address in a URL: `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`. Two
 * slashes after the first colon are allowed.
 */
export function parseURL(url: string, token?: string): Address {
  const more = token === undefined ? {} : { token };
  const text = typeof url === "string" ? url : ""; // without types it may be missing
  const colon = text.indexOf(":");
  const kind = text.slice(0, Math.max(colon, 0));
  const rest = text.slice(colon + 1).replace(/^\/\//, "");
  if (kind === "unix" && rest !== "") return { kind, path: rest, ...more };
  if (kind === "tcp" || kind === "tls") {
    const last = rest.lastIndexOf(":");
    const host = rest.slice(0, Math.max(last, 0)).replace(/^\[(.*)\]$/, "$1");
    const port = rest.slice(last + 1);
    if (host !== "" && /^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65536) {
      return { kind, host, port: Number(port), ...more };
    }
  }
  throw new InvalidArgumentError(
    `${shown(url)} is no address of a server; write unix:PATH, tcp:HOST:PORT or tls:HOST:PORT`,
  );
}

/** showAddress is the address in words, without its token. */
export function showAddress(address: Address): string {
  return address.kind === "unix" ? `unix:${address.path}` : `${address.kind}:${address.host}:${address.port}`;
}

/** Remote is a server that somebody else runs. */
export class Remote implements Endpoint {
  readonly tls?: TLSOptions;
  private readonly at: Address;

  constructor(url: string, options: { token?: string; tls?: TLSOptions }) {
    this.at = parseURL(url, options.token ?? (process.env["STELE_TOKEN"] || undefined));
    if (options.tls) this.tls = options.tls;
  }

  async address(): Promise<Address> {
    return this.at;
  }

  async start(): Promise<void> {}

  greeted(): void {}

  unreachable(cause: unknown): Error {
    return new SteleConnectionError(`no server answers at ${showAddress(this.at)}: ${reason(cause)}`, { cause });
  }
}

/** reason is what an error says, for the message of another one. */
export function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
