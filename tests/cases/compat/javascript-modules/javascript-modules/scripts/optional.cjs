let yaml;
try {
  yaml = require("some-yaml");
} catch {
  yaml = null;
}
let parse;
try {
  ({ parse } = require("fast-parse"));
} catch (error) {
  ({ parse } = require("node:querystring"));
}
try {
  require("canvas");
} catch (error) {
  console.error("npm install canvas");
  process.exit(1);
}
if (process.env.DEBUG) {
  require("debug-tool");
}
const file = Bun.file("x");
