import { readdirSync, readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

// licences puts the licences of what is compiled in beside it, as they ask.
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const { dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as { dependencies: Record<string, string> };
      const parts = Object.keys(dependencies)
        .sort()
        .map((name) => {
          const dir = "node_modules/" + name;
          const file = readdirSync(dir).find((f) => /^licen[sc]e/i.test(f));
          return `${name} ${dependencies[name]}\n\n${file ? readFileSync(`${dir}/${file}`, "utf8").trim() : "see its package"}\n`;
        });
      this.emitFile({ type: "asset", fileName: "licences.txt", source: parts.join("\n" + "-".repeat(80) + "\n\n") });
    },
  };
}

// Names without hashes: the built files are committed, and a change shows as a change of
// the same file. The server sends no-cache, so a browser never uses an old one.
export default defineConfig({
  base: "./",
  plugins: [licences()],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "studio.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
  oxc: { jsx: { importSource: "preact", runtime: "automatic" } },
});
