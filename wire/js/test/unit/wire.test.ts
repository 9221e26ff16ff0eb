import { encode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { InternalError, InvalidArgumentError, ProtocolError, ThreadDeletedError, TooLargeError, UnsupportedError } from "../../src/errors.js";
import { FrameReader, decode, errorOf, notification, request } from "../../src/wire.js";
import { frame } from "./fake.js";
import { random } from "./random.js";

test("a request is a frame of four bytes of length and a message", () => {
  const bytes = Buffer.from(request(7, "get", { thread: "t", id: undefined }, 1000));
  expect(bytes.toString("hex")).toBe("0000001294 00 07 a3676574 91 81 a6746872656164 a174".replaceAll(" ", ""));
  const more = Buffer.from(notification("more", { call: 7, batches: 1 }));
  expect(more.toString("hex")).toBe("00000018 93 02 a46d6f7265 91 82 a463616c6c 07 a762617463686573 01".replaceAll(" ", ""));
});

test("a request over the limit, or of what cannot be encoded, is refused", () => {
  expect(() => request(1, "put", { data: new Uint8Array(100) }, 100)).toThrow(TooLargeError);
  expect(() => request(1, "put", { data: () => 1 }, 100)).toThrow(InvalidArgumentError);
});

test("half of a character is refused by the name of its parameter, in short text and in long", () => {
  for (const half of ["\ud800", `${"a".repeat(59)}\udc00`, `\ud83d${"a".repeat(60)}`]) {
    const refused: [string, Record<string, unknown>][] = [
      ["thread_id", { thread: half }],
      ["checkpoint_ns", { thread: "t", ns: half }],
      ["the id of the target thread", { thread: "t", to: half }],
      ["namespace", { ops: [{ op: "put", namespace: ["a", half], key: "k" }] }],
      ["key", { ops: [{ op: "get", namespace: ["a"], key: half }] }],
      ["a name in versions", { checkpoint: { versions: { [half]: 1 } } }],
      ["writes", { writes: [[half, ["json", new Uint8Array(1)]]] }],
    ];
    for (const [name, params] of refused) {
      const send = (): Uint8Array => request(1, "put", params, 1 << 20);
      expect(send).toThrow(InvalidArgumentError);
      expect(send).toThrow(`${name} has half of a character`);
    }
  }
  const bytes = Buffer.from("\u{1f600}\ud800", "utf16le");
  expect(() => request(1, "put", { thread: "\u{1f600}".repeat(30), data: bytes }, 1 << 20)).not.toThrow();
});

test("frames are cut out of chunks of any size", () => {
  const { next, seed } = random();
  const bodies = Array.from({ length: 200 }, () => Buffer.alloc(Math.floor(next() ** 6 * 5000), Math.floor(next() * 256)));
  const stream = Buffer.concat(
    bodies.flatMap((body) => {
      const header = Buffer.alloc(4);
      header.writeUInt32BE(body.length);
      return [header, body];
    }),
  );
  const reader = new FrameReader();
  const got: Buffer[] = [];
  for (let at = 0; at < stream.length; ) {
    const n = 1 + Math.floor(next() ** 4 * 3000);
    for (const body of reader.push(stream.subarray(at, at + n))) got.push(Buffer.from(body));
    at += n;
  }
  expect(got.length, seed).toBe(bodies.length);
  for (const [i, body] of bodies.entries()) expect(got[i]?.equals(body), seed).toBe(true);
});

test("a frame over the limit is refused by its header", () => {
  const reader = new FrameReader(1000);
  expect(() => [...reader.push(Buffer.from([0, 0, 4, 0]))]).toThrow(ProtocolError);
  expect(() => [...new FrameReader().push(Buffer.from("HTTP/1.1"))]).toThrow('a server that is not stele answers: what it sends begins with "HTTP"');
});

test("messages of another form are refused", () => {
  expect(decode(encode([1, 5, null, { a: 1 }]))).toEqual({ kind: "response", id: 5, error: null, result: { a: 1 } });
  expect(decode(encode([2, "items", [{ call: 1 }]]))).toEqual({ kind: "notification", method: "items", params: { call: 1 } });
  for (const wrong of [null, 1, "x", [], [1], [1, "x", null, null], [2, "items", []], [2, "items", [1]], [0, 1, "get", [{}]], { a: 1 }]) {
    expect(() => decode(encode(wrong)), JSON.stringify(wrong)).toThrow(ProtocolError);
  }
  expect(() => decode(new Uint8Array([0xc1]))).toThrow(ProtocolError);
  expect(() => decode(new Uint8Array([0x93, 1]))).toThrow(ProtocolError);
});

test("random bytes are a message or a ProtocolError", () => {
  const { next, seed } = random();
  const seeds = [encode([1, 5, null, { tuple: [{ a: "b", c: new Uint8Array(4) }] }]), encode([2, "items", [{ call: 1, items: [[1, 2]] }]])];
  for (let n = 0; n < 5_000; n++) {
    const bytes = Uint8Array.from(seeds[n % 2] as Uint8Array);
    for (let k = 0; k < 1 + next() * 3; k++) bytes[Math.floor(next() * bytes.length)] = Math.floor(next() * 256);
    const cut = bytes.subarray(0, Math.ceil(next() * bytes.length * 1.2));
    try {
      decode(cut);
    } catch (error) {
      expect(error, `${seed} ${Buffer.from(cut).toString("hex")}`).toBeInstanceOf(ProtocolError);
    }
  }
});

test("a name that is not UTF-8 can be a key", () => {
  const body = Buffer.from([0x94, 1, 5, 0xc0, 0x81, 0xc4, 2, 0xff, 0x61, 1]);
  expect(decode(body)).toMatchObject({ result: { "\ufffda": 1 } });
});

test("errors have the class of their code, and details", () => {
  const error = errorOf({ code: "thread_deleted", message: "gone", details: { thread: "t" } });
  expect(error).toBeInstanceOf(ThreadDeletedError);
  expect(error).toMatchObject({ name: "ThreadDeletedError", code: "thread_deleted", details: { thread: "t" } });
  expect(error.message).toMatch(/^gone\. Start the thread anew/);
  expect(errorOf({ code: "unknown_method" })).toBeInstanceOf(UnsupportedError);
  expect(errorOf({ code: "of_tomorrow", message: "new" })).toBeInstanceOf(InternalError);
  for (const wrong of [null, 5, "x", {}, []]) expect(errorOf(wrong)).toBeInstanceOf(ProtocolError);
  expect(frame(1).length).toBe(5);
});
