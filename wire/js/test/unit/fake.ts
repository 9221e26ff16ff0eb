/** A server that tests tell what to answer. */
import { Decoder, encode } from "@msgpack/msgpack";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import type { Fields } from "../../src/wire.js";
import { FrameReader } from "../../src/wire.js";

/** Asked is a request that has arrived. */
export interface Asked {
  id: number;
  method: string;
  params: Fields;
  socket: net.Socket;
  answer(result: unknown): void;
  fail(code: string, message?: string, details?: Fields): void;
  /** items sends a batch of a stream. */
  items(items: unknown[]): void;
}

export function frame(message: unknown): Buffer {
  const body = encode(message);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

export class Fake {
  /** asked are all requests but hello, in the order of their arrival. */
  readonly asked: Asked[] = [];
  /** told are all notifications. */
  readonly told: { method: string; params: Fields }[] = [];
  readonly hellos: Fields[] = [];
  /** refuse is the error that hello is answered with, if any. */
  refuse = "";
  /** greet answers hello, if it is not as usual. */
  greet: ((asked: Asked) => void) | undefined;
  hello: Fields = { protocol: 1, server: "fake", store: "memory", methods: ["get"], max_frame: 1 << 20, max_calls: 256, call_slots: 4 };
  private readonly server: net.Server;
  private readonly sockets = new Set<net.Socket>();
  private readonly directory = fs.mkdtempSync(path.join(os.tmpdir(), "stele-fake-"));
  readonly url = `unix:${this.directory}/s`;

  constructor(private readonly handle: (asked: Asked) => void) {
    this.server = net.createServer((socket) => this.serve(socket));
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(path.join(this.directory, "s"), resolve));
    return this;
  }

  /** cut ends all connections. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  get connections(): number {
    return this.sockets.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
    fs.rmSync(this.directory, { recursive: true });
  }

  private serve(socket: net.Socket): void {
    const frames = new FrameReader();
    const decoder = new Decoder();
    this.sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      for (const body of frames.push(chunk)) {
        const message = decoder.decode(body) as unknown[];
        if (message[0] === 2) {
          this.told.push({ method: String(message[1]), params: (message[2] as Fields[])[0] as Fields });
          continue;
        }
        const id = message[1] as number;
        const send = (sent: unknown): void => void socket.write(frame(sent));
        const asked: Asked = {
          id,
          method: String(message[2]),
          params: (message[3] as Fields[])[0] as Fields,
          socket,
          answer: (result) => send([1, id, null, result]),
          fail: (code, text = code, details = {}) => send([1, id, { code, message: text, details }, null]),
          items: (items) => send([2, "items", [{ call: id, items }]]),
        };
        if (asked.method === "hello") {
          this.hellos.push(asked.params);
          if (this.greet) this.greet(asked);
          else if (this.refuse) asked.fail(this.refuse);
          else asked.answer(this.hello);
        } else {
          this.asked.push(asked);
          this.handle(asked);
        }
      }
    });
  }
}
