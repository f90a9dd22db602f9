// Run a probe's script in Pyodide: node pyodide_driver.mjs JSON. See `pyodide_place.py`.
//
// The script talks over its standard input and output, which are this process's. A script that ends
// as the interpreter does ends this process with its status. A failure of the runtime itself, such
// as a trap of WebAssembly, is written to standard error after "Fatal Python error: ".

import { readSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { exit, argv } from "node:process";

const FATAL = 70; // exit status after a failure of the runtime
const asked = JSON.parse(argv[2]); // package, script, words, variables, mounts
const sleeper = new Int32Array(new SharedArrayBuffer(4));

// Node makes pipes non-blocking as soon as any code touches `process.stdin` or `process.stdout`.
function insist(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (error.code === "EOF") return 0; // on Windows, the end of a pipe
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, 2); // milliseconds
    }
  }
}

function complain(text) {
  insist(() => writeSync(2, `${text}\n`));
}

function end(error) {
  if (typeof error?.status === "number") exit(error.status); // os._exit, or exit() in C
  const [first] = String(error?.message ?? error).split("\n");
  if (!error?.pyodide_fatal_error) complain(error?.stack ?? error); // else Pyodide has printed it
  complain(`Fatal Python error: ${error?.name ?? "Error"}: ${first}`);
  exit(FATAL);
}

process.on("uncaughtException", end);
process.on("unhandledRejection", end);

let runtime;
try {
  const { loadPyodide } = await import(pathToFileURL(`${asked.package}/pyodide.mjs`).href);
  runtime = await loadPyodide({
    indexURL: `${asked.package}/`,
    env: { HOME: "/home/pyodide", ...asked.variables },
    stderr: complain,
  });
} catch (error) {
  complain(`Pyodide does not start: ${error?.message ?? error}`);
  exit(1);
}

runtime.setStdin({ read: (buffer) => insist(() => readSync(0, buffer)) });
runtime.setStdout({ write: (buffer) => insist(() => writeSync(1, buffer)) });
for (const [folder, place] of Object.entries(asked.mounts)) {
  runtime.FS.mkdirTree(place);
  runtime.FS.mount(runtime.FS.filesystems.NODEFS, { root: folder }, place);
}

// eval_code would compile the script's last expression apart from the rest
const START = `
def start(path, words):
    import sys
    sys.argv[:], sys.dont_write_bytecode = [path, *words], True
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    exec(code, {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__})
    import atexit
    atexit._run_exitfuncs()
start
`;
try {
  runtime.runPython(START)(asked.script, asked.words);
} catch (error) {
  if (error?.name !== "PythonError") end(error);
  complain(error.message);
  exit(1);
}
exit(0);
