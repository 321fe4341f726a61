import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [svelte()],
  // The window is served from its own origin; every address is relative to it.
  base: "./",
  build: {
    target: "es2022",
    // The content security policy has no `data:`: fonts and pictures stay files.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  server: { port: 5173, strictPort: true, host: "127.0.0.1" },
  // Messages of the build stay on the screen beside cargo's.
  clearScreen: false,
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
