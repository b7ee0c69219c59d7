// Counts the lines, words and characters of a text.
import { readFileSync } from "node:fs";

interface Counts {
  lines: number;
  words: number;
  characters: number;
}

function count(text: string): Counts {
  return {
    lines: text.split("\n").length - (text === "" || text.endsWith("\n") ? 1 : 0),
    words: text.split(/\s+/).filter((word: string) => word !== "").length,
    characters: [...text].length,
  };
}

/** Returns the three numbers as a sentence. */
function sentence({ lines, words, characters }: Counts): string {
  return `${lines} lines, ${words} words, ${characters} characters`;
}

const path: string | undefined = process.argv[2];
try {
  // 0 is standard input.
  console.log(sentence(count(readFileSync(path ?? 0, "utf8"))));
} catch (error) {
  console.error(`count.ts: ${(error as Error).message}`);
  process.exitCode = 2;
}
