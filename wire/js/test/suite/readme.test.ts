/** What the README shows. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { expect, test } from "vitest";
import { directory, kill } from "./servers.js";

const project = path.resolve(import.meta.dirname, "../..");
const readme = fs.readFileSync(path.join(project, "README.md"), "utf8");
const modules = path.join(project, "node_modules");
// In a checkout, the package under test is the project itself.
if (!fs.existsSync(path.join(modules, "langgraph-checkpoint-stele"))) {
  fs.symlinkSync(project, path.join(modules, "langgraph-checkpoint-stele"), "junction");
}
const program = /```js\n(.*?)```/s.exec(readme)?.[1] as string;

test.each(["module", "commonjs"])("an interrupt is answered by another process, also of %s", (type) => {
  const dir = directory();
  fs.mkdirSync(dir);
  fs.symlinkSync(modules, path.join(dir, "node_modules"), "junction");
  const asModule = type === "module";
  const text = asModule ? program : commonJS(program);
  fs.writeFileSync(path.join(dir, `program.${asModule ? "mjs" : "cjs"}`), text);
  const run = (): string =>
    execFileSync(process.execPath, [path.join(dir, `program.${asModule ? "mjs" : "cjs"}`)], { cwd: dir, encoding: "utf8", timeout: 60_000 });
  expect(run()).toContain("May I?");
  expect(kill(path.join(dir, "stele-data"))).toBe(true);
  expect(run()).toBe("{ answer: 'yes' }\n");
  expect(kill(path.join(dir, "stele-data"))).toBe(true);
});

function commonJS(text: string): string {
  const imports = text.replace(/^import (\{.*\}) from ("[^"]*");$/gm, "const $1 = require($2);");
  return `(async () => {\n${imports}\n})();\n`;
}
