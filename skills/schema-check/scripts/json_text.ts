// Parses JSON and keeps the position of each value, for messages with lines and columns.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Place {
  line: number;
  column: number;
}

/** A document, the places of its values by JSON pointer, and its duplicate keys. */
export interface Document {
  value: Json;
  places: Map<string, Place>;
  duplicates: { pointer: string; place: Place }[];
}

/** A text that is not valid JSON. */
export class JsonError extends Error {
  place: Place;

  constructor(message: string, place: Place) {
    super(message);
    this.place = place;
  }
}

/** More levels than any real document has, and fewer than would exhaust the stack. */
const MAX_DEPTH = 500;

const ESCAPES: { [letter: string]: string } = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** Returns a pointer to a member or element. */
export function child(pointer: string, key: string | number): string {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Parses a text. `line` is the number of its first line. */
export function parse(text: string, line = 1): Document {
  const parser = new Parser(text.replace(/^\uFEFF/, ""), line);
  return parser.document();
}

class Parser {
  text: string;
  at = 0;
  line: number;
  lineStart = 0;
  places = new Map<string, Place>();
  duplicates: { pointer: string; place: Place }[] = [];

  constructor(text: string, line: number) {
    this.text = text;
    this.line = line;
  }

  document(): Document {
    const value = this.value("", 0);
    this.space();
    if (this.at < this.text.length) {
      throw this.error("there is text after the end of the document");
    }
    return { value, places: this.places, duplicates: this.duplicates };
  }

  value(pointer: string, depth: number): Json {
    this.space();
    this.places.set(pointer, this.place());
    if (depth > MAX_DEPTH) {
      throw this.error(`it is nested more than ${MAX_DEPTH} levels deep`);
    }
    const c = this.text[this.at];
    switch (c) {
      case "{":
        return this.object(pointer, depth);
      case "[":
        return this.array(pointer, depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      case undefined:
        throw this.error("the text ends where a value is expected");
      default:
        return this.number();
    }
  }

  object(pointer: string, depth: number): Json {
    const object: { [key: string]: Json } = Object.create(null);
    this.at += 1;
    this.space();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return object;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') {
        throw this.error(this.text[this.at] === "}" ? "there is a comma before `}`" : "a key in double quotes is expected");
      }
      const place = this.place();
      const key = this.string();
      const below = child(pointer, key);
      if (key in object) {
        this.duplicates.push({ pointer: below, place });
      }
      this.space();
      this.expect(":", "after the key");
      object[key] = this.value(below, depth + 1);
      this.space();
      if (this.text[this.at] === "}") {
        this.at += 1;
        return object;
      }
      this.expect(",", "or `}` after the value");
    }
  }

  array(pointer: string, depth: number): Json {
    const array: Json[] = [];
    this.at += 1;
    this.space();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return array;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] === "]") {
        throw this.error("there is a comma before `]`");
      }
      array.push(this.value(child(pointer, array.length), depth + 1));
      this.space();
      if (this.text[this.at] === "]") {
        this.at += 1;
        return array;
      }
      this.expect(",", "or `]` after the value");
    }
  }

  string(): string {
    let out = "";
    this.at += 1;
    for (;;) {
      const c = this.text[this.at];
      if (c === undefined || c === "\n") {
        throw this.error("the string is not closed");
      }
      if (c === '"') {
        this.at += 1;
        return out;
      }
      if (c < " ") {
        throw this.error("a control character in a string must be escaped");
      }
      if (c !== "\\") {
        out += c;
        this.at += 1;
        continue;
      }
      const letter = this.text[this.at + 1] ?? "";
      if (letter === "u" && /^[0-9a-fA-F]{4}$/.test(this.text.slice(this.at + 2, this.at + 6))) {
        out += String.fromCharCode(parseInt(this.text.slice(this.at + 2, this.at + 6), 16));
        this.at += 6;
      } else if (letter in ESCAPES) {
        out += ESCAPES[letter];
        this.at += 2;
      } else {
        throw this.error(`\`\\${letter}\` is not an escape of JSON`);
      }
    }
  }

  number(): number {
    const pattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match === null) {
      throw this.error(`unexpected ${JSON.stringify(this.text[this.at])}`);
    }
    this.at += match[0].length;
    return Number(match[0]);
  }

  word<T extends Json>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) {
      throw this.error(`unexpected ${JSON.stringify(this.text[this.at])}`);
    }
    this.at += word.length;
    return value;
  }

  expect(c: string, where: string): void {
    if (this.text[this.at] !== c) {
      throw this.error(`\`${c}\` ${where} is expected`);
    }
    this.at += 1;
  }

  space(): void {
    for (;;) {
      const c = this.text[this.at];
      if (c === "\n") {
        this.line += 1;
        this.lineStart = this.at + 1;
      } else if (c !== " " && c !== "\t" && c !== "\r") {
        return;
      }
      this.at += 1;
    }
  }

  place(): Place {
    return { line: this.line, column: this.at - this.lineStart + 1 };
  }

  error(message: string): JsonError {
    return new JsonError(message, this.place());
  }
}
