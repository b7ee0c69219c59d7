// Runs a Python script in Pyodide: node pyodide.mjs PYODIDE SKILL WORKSPACE SCRIPT ARGUMENT...
import { pathToFileURL } from "node:url";

const [library, skill, workspace, script, ...args] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${library}/pyodide.mjs`).href);
const python = await loadPyodide();
python.mountNodeFS("/skill", skill);
python.mountNodeFS("/workspace", workspace);
python.globals.set("argv", python.toPy([`/skill/${script}`, ...args]));
const status = python.runPython(`
import os, runpy, sys
os.chdir("/workspace")
sys.argv = list(argv)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
status = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    status = end.code or 0
sys.stdout.flush()
status
`);
process.exit(status);
