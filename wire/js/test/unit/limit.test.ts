import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import { SteleSaver } from "../../src/saver.js";
import { SteleStore } from "../../src/store.js";

/** wrong are limits that no server takes. */
const wrong: unknown[] = [-1, NaN, 1.5, Infinity, "7", [], {}, true, 2 ** 53];

test.each(wrong.map((limit) => [limit]))("a limit of %s is refused before anything is sent", async (given) => {
  const limit = given as number;
  const nowhere = "unix:/nowhere/at/all";
  await using saver = SteleSaver.fromUrl(nowhere);
  await expect(saver.list({ configurable: { thread_id: "t" } }, { limit }).next()).rejects.toThrow(InvalidArgumentError);
  await expect(saver.threads({ limit }).next()).rejects.toThrow(InvalidArgumentError);
  await using store = SteleStore.fromUrl(nowhere);
  for (const name of ["limit", "offset"]) {
    await expect(store.search(["a"], { [name]: limit })).rejects.toThrow(`${name} is `);
    await expect(store.listNamespaces({ [name]: limit })).rejects.toThrow(`${name} is `);
  }
});
