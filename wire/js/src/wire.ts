/**
 * Frames and messages, as docs/wire.md of stele specifies them. Nothing here does I/O.
 */
import { Encoder, decode as decodeValue } from "@msgpack/msgpack";
import * as errors from "./errors.js";
import { InvalidArgumentError, ProtocolError, SteleError, TooLargeError } from "./errors.js";

/** PROTOCOL is the version of the protocol that this client speaks. */
export const PROTOCOL = 1;

/** VERSION is the release of this package. */
export const VERSION = "0.1.0";

/** MAX_FRAME bounds a frame, in bytes, until the server has said its limit. */
export const MAX_FRAME = 128 << 20;

/** Fields are the map of a request, a notification or an answer. */
export type Fields = Record<string, unknown>;

/** Message is what a client receives. */
export type Message =
  | { kind: "response"; id: number; error: unknown; result: unknown }
  | { kind: "notification"; method: string; params: Fields };

const encoder = new Encoder({ ignoreUndefined: true });
const names = new TextDecoder();

// A name that is not UTF-8 arrives as bytes, also where it is the key of a map.
function nameOf(key: unknown): string | number {
  if (typeof key === "string" || typeof key === "number") return key;
  if (key instanceof Uint8Array) return names.decode(key);
  throw new ProtocolError("the server sent a map with a key that is no name");
}

const LONE = /\p{Surrogate}/u;

/** refuseHalf refuses text with half of a character. It would arrive as another text, or as none. */
export function refuseHalf(name: string, text: string): void {
  if (LONE.test(text)) {
    throw new InvalidArgumentError(`${name} has half of a character (a lone surrogate), which is no text; mend it with toWellFormed`);
  }
}

/** refuseHalves is refuseHalf for all text in the parameter of that name. */
function refuseHalves(name: string, value: unknown): void {
  if (typeof value === "string") refuseHalf(name, value);
  else if (Array.isArray(value)) for (const inner of value) refuseHalves(name, inner);
  else if (isFields(value)) {
    for (const [key, inner] of Object.entries(value)) {
      refuseHalf(`a name in ${name}`, key);
      refuseHalves(key, inner);
    }
  }
}

/** callers are the names that callers have for parameters. */
const callers: Record<string, string> = { thread: "thread_id", ns: "checkpoint_ns", id: "checkpoint_id", to: "the id of the target thread" };

/** request is the frame of a request. */
export function request(id: number, method: string, params: Fields, maxFrame: number): Uint8Array {
  let body;
  try {
    body = encoder.encodeSharedRef([0, id, method, [params]]);
  } catch (cause) {
    throw new InvalidArgumentError(`an argument of ${method} cannot be sent: ${String(cause)}`, { cause });
  }
  for (const [name, value] of Object.entries(params)) refuseHalves(callers[name] ?? name, value); // what was encoded has no circles
  if (body.length > maxFrame) {
    throw new TooLargeError(`a call of ${method} has ${body.length} bytes, and the server takes ${maxFrame}`);
  }
  return frame(body);
}

/** notification is the frame of a notification. */
export function notification(method: string, params: Fields): Uint8Array {
  return frame(encoder.encodeSharedRef([2, method, [params]]));
}

function frame(body: Uint8Array): Uint8Array {
  const out = Buffer.allocUnsafe(4 + body.length);
  out.writeUInt32BE(body.length);
  out.set(body, 4);
  return out;
}

/** decode is the message in the body of a frame. Anything else is a ProtocolError. */
export function decode(body: Uint8Array): Message {
  let message;
  try {
    // What has more elements than bytes is not made room for.
    const limits = { maxArrayLength: body.length, maxMapLength: body.length };
    message = decodeValue(body, { mapKeyConverter: nameOf, ...limits });
  } catch (cause) {
    throw new ProtocolError(`the server sent what is no message: ${String(cause)}`, { cause });
  }
  if (Array.isArray(message)) {
    const [kind, second, third, fourth] = message as unknown[];
    if (kind === 1 && message.length === 4 && typeof second === "number") {
      return { kind: "response", id: second, error: third, result: fourth };
    }
    if (kind === 2 && message.length === 3 && typeof second === "string" && Array.isArray(third)) {
      const params = third[0] as unknown;
      if (third.length === 1 && isFields(params)) return { kind: "notification", method: second, params };
    }
  }
  throw new ProtocolError("the server sent a message of another form");
}

/** isFields reports whether a decoded value is a map. */
export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/**
 * FrameReader cuts a stream of bytes into the bodies of frames. It holds no more than
 * has arrived, whatever length a frame claims.
 */
export class FrameReader {
  private chunks: Buffer[] = [];
  private held = 0;
  private want = -1; // length of the body under way; -1 while its header is missing

  constructor(private readonly maxFrame = MAX_FRAME) {}

  /** push takes the next bytes and yields the bodies that are whole now. */
  *push(chunk: Buffer): Generator<Uint8Array> {
    this.chunks.push(chunk);
    this.held += chunk.length;
    for (;;) {
      if (this.want < 0) {
        if (this.held < 4) return;
        const header = this.take(4);
        this.want = header.readUInt32BE();
        if (this.want > this.maxFrame) {
          throw new ProtocolError(`a server that is not stele answers: what it sends begins with ${JSON.stringify(header.toString("latin1"))}`);
        }
      }
      if (this.held < this.want) return;
      const { buffer, byteOffset, byteLength } = this.take(this.want);
      this.want = -1;
      yield new Uint8Array(buffer, byteOffset, byteLength); // bytes in a message are no Buffer of Node
    }
  }

  /** take removes the next n bytes. They share memory with a chunk where they can. */
  private take(n: number): Buffer {
    this.held -= n;
    const first = this.chunks[0] ?? Buffer.alloc(0);
    if (first.length > n) {
      this.chunks[0] = first.subarray(n);
      return first.subarray(0, n);
    }
    const parts: Buffer[] = [];
    for (let missing = n; missing > 0; ) {
      const part = this.chunks[0] as Buffer;
      if (part.length <= missing) {
        this.chunks.shift();
        parts.push(part);
      } else {
        this.chunks[0] = part.subarray(missing);
        parts.push(part.subarray(0, missing));
      }
      missing -= Math.min(part.length, missing);
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, n);
  }
}

// Each class knows the code of its errors. Those that the client finds itself have none.
const byCode = new Map(
  Object.values(errors)
    .filter((type) => type.code !== "")
    .map((type): [string, typeof SteleError] => [type.code, type]),
);
byCode.set("unknown_method", errors.UnsupportedError);

/** errorOf is the error that an answer holds. */
export function errorOf(answer: unknown): SteleError {
  const { code, message, details } = isFields(answer) ? answer : ({} as Fields);
  if (typeof code !== "string") return new ProtocolError("the server answered an error of another form");
  const type = byCode.get(code);
  const text = typeof message === "string" && message !== "" ? message : code;
  const more = isFields(details) ? { details } : {};
  if (code === "invalid" && more.details?.["field"] === "index" && more.details["reason"] === "the store has no index") {
    // The server says it in the words of Go programs.
    return new errors.InvalidArgumentError("the store has no vectors to find a text by: leave out query, and search by filter", more);
  }
  return type ? new type(text, more) : new errors.InternalError(`${code}: ${text}`, more);
}
