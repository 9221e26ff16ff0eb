import { expect, test } from "vitest";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { parseURL, showAddress } from "../../src/address.js";
import { prove } from "../../src/connection.js";
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

test.runIf(process.platform !== "win32")("links lead to a directory's server, as in Go and Python", async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "stele-links-"));
  const said = { protocol: 1, address: "tcp:127.0.0.1:4711", pid: 1, token_file: "serve.token" };
  fs.mkdirSync(path.join(dir, "elsewhere"));
  fs.writeFileSync(path.join(dir, "elsewhere", "said"), JSON.stringify(said));
  fs.writeFileSync(path.join(dir, "elsewhere", "token"), "secret\n");
  fs.symlinkSync("elsewhere/said", path.join(dir, "serve.json"));
  fs.symlinkSync("elsewhere/token", path.join(dir, "serve.token"));
  expect(await new Directory(dir, {}).address()).toEqual({ kind: "tcp", host: "127.0.0.1", port: 4711, token: "secret" });
  fs.rmSync(dir, { recursive: true });
});

test("proofs are those of the server", () => {
  // Go and Python have the same texts in a test.
  const address = { kind: "tcp", host: "127.0.0.1", port: 1234, token: "token" } as const;
  expect(prove("client", address, "challenge")).toBe("07d624356bada1dfb1028eb91382e56e2c6a8e680a56e6d31850d6508cad21f4");
  expect(prove("server", address, "challenge")).toBe("f13e10306447850ff810ac22b9dfba58a2cbd0a00cc27feff7aeb68524059af8");
});

test("an empty token proves nothing", async () => {
  // A power failure may leave the file empty, and anybody knows no token.
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "stele-token-"));
  const said = { protocol: 1, address: "tcp:127.0.0.1:1", token_file: "serve.token", proof: true };
  fs.writeFileSync(path.join(dir, "serve.json"), JSON.stringify(said));
  const endpoint = new Directory(dir, {});
  for (const [token, known] of [["", false], ["known", true]] as const) {
    fs.writeFileSync(path.join(dir, "serve.token"), token);
    expect((await endpoint.address()) !== undefined).toBe(known);
  }
  fs.rmSync(dir, { recursive: true });
});
