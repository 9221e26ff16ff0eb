import { HumanMessage } from "@langchain/core/messages";
import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import { SteleSerializer, dumpPlain } from "../../src/serializer.js";

// A user's object may look as LangChain stores objects of its classes. It is refused before it is
// stored if it could not be read back: the whole thread could not, then.
test("an object that looks like one that is stored", async () => {
  const serde = new SteleSerializer();
  const like = { lc: 1, type: "constructor", id: ["langchain_core", "tools", "None"], kwargs: {} };
  for (const value of [like, { a: [{ b: like }] }, new Map([["a", like]]), new HumanMessage({ content: "hi", additional_kwargs: { like } })]) {
    await expect(serde.dumpsTyped(value)).rejects.toThrow(InvalidArgumentError);
  }
  for (const value of [{ ...like, lc: 2 }, { ...like, type: "secret" }, { ...like, id: "x" }, { lc: 1 }]) {
    const [type, data] = await serde.dumpsTyped(value);
    expect(await serde.loadsTyped(type, data)).toEqual(value);
  }
  const [type, data] = await serde.dumpsTyped([new HumanMessage("hi")]);
  expect(await serde.loadsTyped(type, data)).toEqual([new HumanMessage("hi")]);
});

test.each<[string, unknown]>([
  ["a Generator", (function* () {})()],
  ["an AsyncGenerator", (async function* () {})()],
  ["an Array Iterator", [1].values()],
  ["an ArrayBuffer", new ArrayBuffer(1)],
  ["a Promise", Promise.resolve(1)],
  ["an object of a class without a name", new (class { #a = 1; get a() { return this.#a; } })()],
])("what has no fields is told as what it is: %s", async (told, value) => {
  await expect(new SteleSerializer().dumpsTyped([value])).rejects.toThrow(`an element of a value is ${told}, of which JSON keeps nothing`);
  expect(() => dumpPlain({ value })).toThrow(`value is ${told}, of which JSON keeps nothing`);
});
