import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import { SteleSaver } from "../../src/saver.js";
import { SteleSerializer } from "../../src/serializer.js";
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
  for (const maxDepth of [limit, 0]) await expect(store.listNamespaces({ maxDepth })).rejects.toThrow("maxDepth is ");
});

test("an option that a call does not have is refused, and so is one of another kind", async () => {
  const any = (given: unknown): never => given as never;
  await using saver = SteleSaver.fromUrl("unix:/nowhere/at/all");
  await using store = SteleStore.fromUrl("unix:/nowhere/at/all");
  const refused: [() => unknown, string][] = [
    [() => SteleSaver.fromDir("a", any({ idleexit: 1 })), 'SteleSaver.fromDir has no option "idleexit"; it has serde, deferWrites, create, idleExit, serveArgs, binary, timeout, connectTimeout'],
    [() => SteleSaver.fromDir("a", any(null)), "the options of SteleSaver.fromDir are null; pass an object"],
    [() => SteleSaver.fromUrl("unix:a", any({ create: true })), 'SteleSaver.fromUrl has no option "create"; it has serde, deferWrites, token, tls, timeout'],
    [() => SteleStore.fromDir("a", any({ serde: 1 })), 'SteleStore.fromDir has no option "serde"'],
    [() => SteleStore.fromUrl("unix:a", any({ binary: "a" })), 'SteleStore.fromUrl has no option "binary"'],
    [() => new SteleSerializer(any({ dropfunctions: true })), 'SteleSerializer has no option "dropfunctions"; it has dropFunctions'],
    [() => SteleSaver.fromDir("a", any({ timeout: "5" })), 'timeout is "5"; it is milliseconds'],
    [() => SteleSaver.fromUrl(any(undefined)), "undefined is no address of a server"],
    [() => saver.list({}, any({ fliter: {} })).next(), 'list has no option "fliter"; it has limit, before, filter'],
    [() => saver.list({}, { before: any("x") }).next(), 'before is "x"; it is a config'],
    [() => saver.list({}, { filter: any("x") }).next(), 'filter is "x"; it is an object'],
    [() => saver.threads(any({ staus: "done" })).next(), 'threads has no option "staus"; it has prefix, updatedSince, status, metadata, limit'],
    [() => saver.threads({ updatedSince: any("2026") }).next(), 'updatedSince is "2026"; it is a Date'],
    [() => saver.threads({ updatedSince: new Date(NaN) }).next(), "updatedSince is Invalid Date"],
    [() => saver.threads({ metadata: any([1]) }).next(), "metadata is "],
    [() => saver.prune(["t"], any("weird")), 'the options of prune are "weird"; pass an object with some of these: strategy'],
    [() => store.search(["a"], any({ fliter: {} })), 'search has no option "fliter"; it has filter, limit, offset, query'],
    [() => store.search(["a"], { filter: any(new Map([["a", 1]])) }), "filter is Map(1)"],
    [() => store.listNamespaces(any({ maxdepth: 1 })), 'listNamespaces has no option "maxdepth"'],
  ];
  for (const [call, told] of refused) {
    const error: unknown = await Promise.resolve().then(call).catch((thrown: unknown) => thrown);
    expect(error, told).toBeInstanceOf(InvalidArgumentError);
    expect((error as Error).message).toContain(told);
  }
});
