// Counts the lines, words and characters of a text.
import { readFileSync } from "node:fs";

/** Returns the three numbers as a sentence. */
function count(text) {
  const lines = text.split("\n").length - (text === "" || text.endsWith("\n") ? 1 : 0);
  const words = text.split(/\s+/).filter((word) => word !== "").length;
  return `${lines} lines, ${words} words, ${[...text].length} characters`;
}

const [path] = process.argv.slice(2);
try {
  // 0 is standard input.
  console.log(count(readFileSync(path ?? 0, "utf8")));
} catch (error) {
  console.error(`count.mjs: ${error.message}`);
  process.exitCode = 2;
}
