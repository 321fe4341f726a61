// Component tests: builds the harness page, serves it on a free port of this host, and runs every
// test file against it in headless Chromium. `npm run test:component [-- FILES [NAMES]]`.
import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));
const results = fileURLToPath(new URL("../test-results/", import.meta.url));
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".woff2": "font/woff2",
};
// As in the product, but for the connections that only Tauri makes.
const POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'";

function serve(root) {
  const server = createServer(async (request, response) => {
    if (request.url === "/favicon.ico") {
      response.writeHead(204).end();
      return;
    }
    const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
    const file = join(root, path === "/" ? "index.html" : path);
    const found = file.startsWith(root) && (await stat(file).catch(() => null))?.isFile();
    if (!found) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {
      "content-type": TYPES[extname(file)] ?? "application/octet-stream",
      "content-security-policy": POLICY,
    });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function main() {
  await rm(results, { recursive: true, force: true });
  await mkdir(join(results, "pictures"), { recursive: true });
  await build({ configFile: join(here, "harness/vite.config.ts") });
  const server = await serve(join(results, "harness"));

  const [wanted = "", names] = process.argv.slice(2);
  const files = (await readdir(join(here, "component")))
    .filter((name) => name.endsWith(".test.js") && name.includes(wanted))
    .map((name) => join(here, "component", name));
  const child = spawn(
    process.execPath,
    [
      "--test",
      // A page keeps one core busy; two files at a time suit the smallest of machines.
      "--test-concurrency=2",
      "--test-reporter=spec",
      ...(names === undefined ? [] : [`--test-name-pattern=${names}`]),
      ...files,
    ],
    {
      stdio: "inherit",
      env: { ...process.env, KOTAK_HARNESS: `http://127.0.0.1:${server.address().port}/` },
    },
  );
  const code = await new Promise((resolve) => child.on("exit", resolve));
  server.close();
  process.exitCode = code ?? 1;
}

await main();
