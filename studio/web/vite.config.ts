import { defineConfig } from "vite";

// Names without hashes: the built files are committed, and a change shows as a change of
// the same file. The server sends an ETag, so a browser never uses an old one.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
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
