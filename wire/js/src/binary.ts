import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { BinaryNotFoundError } from "./errors.js";
import { here } from "./here.js";

/**
 * findBinary is the path of the program `stele`: the one given, $STELE_BINARY, that of
 * the optional package for this platform, or the one on PATH.
 */
export function findBinary(given?: string): string {
  const named = given ?? (process.env["STELE_BINARY"] || undefined);
  if (named !== undefined) {
    const found = path.basename(named) === named ? onPath(named) : named;
    if (found === undefined || !isFile(found)) throw new BinaryNotFoundError(`${named} is no program`);
    return path.resolve(found);
  }
  const name = process.platform === "win32" ? "stele.exe" : "stele";
  const pack = `langgraph-checkpoint-stele-${process.platform}-${process.arch}`;
  const found = ofPackage(pack, name) ?? onPath(name);
  if (found === undefined) {
    throw new BinaryNotFoundError(`the package ${pack} is not installed, and PATH has no ${name}`);
  }
  return found;
}

/** warnWithoutBinary says when the package is imported what would else fail at the first call. */
export function warnWithoutBinary(): void {
  try {
    findBinary();
  } catch (error) {
    process.emitWarning(`${(error as Error).message}. Until then fromDir can start no server, and fromUrl works`, {
      code: "STELE_NO_BINARY",
    });
  }
}

function ofPackage(pack: string, name: string): string | undefined {
  try {
    const found = path.join(path.dirname(createRequire(here).resolve(`${pack}/package.json`)), "bin", name);
    return isFile(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

function onPath(name: string): string | undefined {
  const directories = (process.env["PATH"] ?? "").split(path.delimiter).filter((directory) => directory !== "");
  return directories.map((directory) => path.join(directory, name)).find(isFile);
}

function isFile(name: string): boolean {
  return fs.statSync(name, { throwIfNoEntry: false })?.isFile() ?? false;
}
