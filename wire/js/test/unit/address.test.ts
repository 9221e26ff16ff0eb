import { expect, test } from "vitest";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { parseURL, showAddress } from "../../src/address.js";
import { Directory } from "../../src/directory.js";
import { DirectoryError, InvalidArgumentError } from "../../src/errors.js";

test("addresses", () => {
  for (const [url, want] of [
    ["unix:/a/b", { kind: "unix", path: "/a/b" }],
    ["unix:///a/b", { kind: "unix", path: "/a/b" }],
    ["unix:serve.sock", { kind: "unix", path: "serve.sock" }],
    ["tcp:127.0.0.1:80", { kind: "tcp", host: "127.0.0.1", port: 80 }],
    ["tls://a.example:7171", { kind: "tls", host: "a.example", port: 7171 }],
    ["tls:[::1]:7171", { kind: "tls", host: "::1", port: 7171 }],
  ] as const) {
    expect(parseURL(url)).toEqual(want);
    expect(parseURL(url, "secret")).toEqual({ ...want, token: "secret" });
    expect(showAddress(parseURL(url, "secret"))).not.toContain("secret");
  }
  for (const wrong of ["", "unix:", "a", "tcp:", "tcp:a", "tcp::80", "tcp:a:0", "tcp:a:65536", "tcp:a:x", "http://a:80"]) {
    expect(() => parseURL(wrong), wrong).toThrow(InvalidArgumentError);
  }
});

test("a directory's server may listen on loopback, with a token beside it", async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "stele-address-"));
  const directory = new Directory(dir, {});
  expect(await directory.address()).toBeUndefined();
  const say = (said: unknown): void => fs.writeFileSync(path.join(dir, "serve.json"), JSON.stringify(said));
  say({ protocol: 1, address: "tcp:127.0.0.1:4711", pid: 1, token_file: "serve.token" });
  expect(await directory.address()).toBeUndefined(); // the token is not there yet
  fs.writeFileSync(path.join(dir, "serve.token"), "secret\n");
  expect(await directory.address()).toEqual({ kind: "tcp", host: "127.0.0.1", port: 4711, token: "secret" });
  say({ protocol: 1, address: "tcp:127.0.0.1:4711", pid: 1, token_file: "serve.token", proof: true });
  expect(await directory.address()).toEqual({ kind: "tcp", host: "127.0.0.1", port: 4711, token: "secret", proves: true });
  say({ protocol: 1, address: "unix:serve.sock", pid: 1, token_file: "" });
  expect(await directory.address()).toEqual({ kind: "unix", path: path.join(dir, "serve.sock") });
  for (const wrong of [null, 5, [], {}, { address: 5 }]) {
    say(wrong);
    expect(await directory.address()).toBeUndefined();
  }
  fs.rmSync(dir, { recursive: true });
  expect(() => new Directory(path.join(dir, "a"), {})).toThrow(DirectoryError);
});
