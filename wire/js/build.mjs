/**
 * Builds the packages of the JavaScript client from a checkout, into a directory:
 *
 *	node build.mjs [--out DIR] [--no-binaries | --platform linux-x64]
 *
 * It compiles the client for ESM and for CommonJS, and `stele` for each platform, without
 * cgo. The packages are files that `npm publish` and `npm install` take. With
 * --no-binaries it only compiles the client, into dist.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const { values: flags } = parseArgs({
  options: {
    out: { type: "string", default: path.join(here, "out") },
    "no-binaries": { type: "boolean" },
    platform: { type: "string", multiple: true },
  },
});
const out = path.resolve(flags.out);
const client = JSON.parse(fs.readFileSync(path.join(here, "package.json"), "utf8"));

// The commit that is built, with a + if there are changes; empty without git, and in another's checkout.
const commit = revision();

// What Node calls a platform, and what Go does.
const platforms = {
  "linux-x64": ["linux", "amd64"],
  "linux-arm64": ["linux", "arm64"],
  "darwin-x64": ["darwin", "amd64"],
  "darwin-arm64": ["darwin", "arm64"],
  "win32-x64": ["windows", "amd64"],
};

compile();
if (!flags["no-binaries"]) {
  fs.rmSync(out, { recursive: true, force: true });
  fs.mkdirSync(out, { recursive: true });
  for (const platform of flags.platform ?? Object.keys(platforms)) packBinary(platform);
  packClient();
}

function revision() {
  const git = (...args) => execFileSync("git", args, { stdio: ["ignore", "pipe", "ignore"], encoding: "utf8", cwd: here }).trim();
  try {
    const top = fs.realpathSync(git("rev-parse", "--show-toplevel"));
    if (top !== fs.realpathSync(path.join(here, "..", ".."))) return "";
    return git("rev-parse", "HEAD") + (git("status", "--porcelain") === "" ? "" : "+");
  } catch {
    return "";
  }
}

function run(command, args, options = {}) {
  return execFileSync(command, args, { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", cwd: here, ...options });
}

/** compile writes dist/esm and dist/cjs. */
function compile() {
  const dist = path.join(here, "dist");
  fs.rmSync(dist, { recursive: true, force: true });
  const tsc = [path.join(here, "node_modules", "typescript", "bin", "tsc"), "-p", here];
  run(process.execPath, tsc, { stdio: "inherit" });
  const cjs = ["--outDir", path.join(dist, "cjs"), "--module", "commonjs", "--moduleResolution", "bundler"];
  run(process.execPath, [...tsc, ...cjs], { stdio: "inherit" });
  fs.copyFileSync(path.join(here, "src", "here.js"), path.join(dist, "esm", "here.js"));
  fs.copyFileSync(path.join(here, "src", "here.cjs"), path.join(dist, "cjs", "here.js"));
  fs.writeFileSync(path.join(dist, "cjs", "package.json"), '{"type":"commonjs"}\n');
}

/** packBinary makes the package that holds `stele` for a platform. */
function packBinary(platform) {
  const [goos, goarch] = platforms[platform];
  const [os, cpu] = platform.split("-");
  const stage = fs.mkdtempSync(path.join(out, "stage-"));
  const name = os === "win32" ? "stele.exe" : "stele";
  const command = path.join(here, "..", "..", "cmd", "stele");
  run("go", ["build", "-trimpath", "-ldflags", `-s -w -X main.revision=${commit}`, "-o", path.join(stage, "bin", name), "."], {
    cwd: command,
    env: { ...process.env, GOOS: goos, GOARCH: goarch, CGO_ENABLED: "0" },
  });
  write(stage, {
    name: `${client.name}-${platform}`,
    version: client.version,
    description: `The program stele for ${platform}, for ${client.name}`,
    license: client.license,
    repository: client.repository,
    os: [os],
    cpu: [cpu],
    files: ["bin"],
  });
  pack(stage);
}

/** packClient makes the package that programs import. It asks for the platform's of the same version. */
function packClient() {
  const stage = fs.mkdtempSync(path.join(out, "stage-"));
  const { devDependencies, scripts, ...kept } = client;
  const binaries = Object.keys(platforms).map((platform) => [`${client.name}-${platform}`, client.version]);
  write(stage, { ...kept, optionalDependencies: Object.fromEntries(binaries) });
  fs.cpSync(path.join(here, "dist"), path.join(stage, "dist"), { recursive: true });
  fs.copyFileSync(path.join(here, "README.md"), path.join(stage, "README.md"));
  pack(stage);
}

function write(stage, named) {
  const clean = commit !== "" && !commit.endsWith("+"); // else no commit is what was built
  const manifest = clean ? { ...named, gitHead: commit } : named;
  fs.writeFileSync(path.join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  fs.copyFileSync(path.join(here, "..", "..", "LICENSE"), path.join(stage, "LICENSE"));
}

function pack(stage) {
  const made = run("npm", ["pack", "--silent", "--pack-destination", out], { cwd: stage, shell: process.platform === "win32" }).trim();
  fs.rmSync(stage, { recursive: true });
  console.log(`${made} ${(fs.statSync(path.join(out, made)).size / 1e6).toFixed(1)} MB`);
}
