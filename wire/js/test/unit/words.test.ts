// What the client says is for who writes JavaScript: in its words, and with what to do.
import * as fs from "node:fs";
import * as path from "node:path";
import { expect, test } from "vitest";
import * as errors from "../../src/errors.js";
import { errorOf } from "../../src/wire.js";

// Words of the server's language, and of the other client's.
const foreign = /%!|\bnil\b|goroutine|\bstruct\b|interface \{|map\[|RunOptions|context deadline|\bNone\b|\bTrue\b|\bFalse\b|max_connections|[a-z]_timeout|=, /;

const classes = Object.values(errors);

test("every error says what to do, in its advice or where it is thrown", () => {
  // Their texts say it, which differs from one to the next.
  const differ = new Set(["SteleError", "InvalidArgumentError", "NotFoundError", "ClosingError", "CancelledError", "SteleTimeoutError", "ServerStartError", "DirectoryError"]);
  for (const type of classes) {
    expect(type.advice !== "" || differ.has(type.name), type.name).toBe(true);
    expect(new type("something happened").message, type.name).not.toMatch(foreign);
  }
});

test("what is thrown is in JavaScript's words", () => {
  const directory = path.join(import.meta.dirname, "../../src");
  let read = 0;
  for (const name of fs.readdirSync(directory)) {
    const text = fs.readFileSync(path.join(directory, name), "utf8");
    for (const [thrown] of text.matchAll(/new \w*Error\((?:[^()]|\([^()]*\))*\)/g)) {
      read++;
      expect(thrown, name).not.toMatch(foreign);
    }
  }
  expect(read).toBeGreaterThan(50);
});

test("an answer about vectors is told from one about an argument", () => {
  const answered = (reason: string): errors.SteleError => errorOf({ code: "invalid", message: `invalid index: ${reason}`, details: { field: "index", reason } });
  expect(answered("the store has no index").message).toMatch(/leave out query/);
  expect(answered("want a list, got a whole number").message).toBe("invalid index: want a list, got a whole number");
});
