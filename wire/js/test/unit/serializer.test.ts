import { HumanMessage } from "@langchain/core/messages";
import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import { SteleSerializer } from "../../src/serializer.js";

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
