#!/usr/bin/env node
// Checks JSON files against a JSON Schema.
import fs from "node:fs";
import path from "node:path";

import { JsonError, parse, type Document, type Json, type Place } from "./json_text.ts";
import { SchemaError, Validator, type Violation } from "./validation.ts";

const USAGE = `usage: schema_check.ts SCHEMA [FILE]... [--no-format] [--max N] [--json]
       schema_check.ts --syntax FILE... [--json]`;

interface Options {
  files: string[];
  syntax: boolean;
  format: boolean;
  max: number;
  json: boolean;
}

/** A line of the report. */
interface Finding {
  file: string;
  line: number;
  column: number;
  place: string;
  message: string;
  rule?: string;
}

class UsageError extends Error {}

function options(args: string[]): Options {
  const found: Options = { files: [], syntax: false, format: true, max: 20, json: false };
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at];
    if (word === "--syntax") {
      found.syntax = true;
    } else if (word === "--no-format") {
      found.format = false;
    } else if (word === "--json") {
      found.json = true;
    } else if (word === "--max") {
      at += 1;
      found.max = Number(args[at]);
      if (!Number.isInteger(found.max) || found.max < 1) {
        throw new UsageError("--max needs a whole number from 1");
      }
    } else if (word.startsWith("-") && word !== "-") {
      throw new UsageError(`unknown option ${word}`);
    } else {
      found.files.push(word);
    }
  }
  if (found.files.length === 0) {
    throw new UsageError(found.syntax ? "--syntax needs a file" : "a schema is needed");
  }
  return found;
}

function read(file: string): string {
  // 0 is standard input.
  return fs.readFileSync(file === "-" ? 0 : file, "utf8");
}

/** Yields the documents of a file: one, or one for each line of JSON Lines. */
function* documents(file: string): Generator<Document | JsonError> {
  const text = read(file);
  const isLines = /\.(?:jsonl|ndjson)$/i.test(file);
  const parts = isLines ? text.split("\n") : [text];
  for (const [index, part] of parts.entries()) {
    if (isLines && part.trim() === "") {
      continue;
    }
    try {
      yield parse(part, index + 1);
    } catch (error) {
      if (!(error instanceof JsonError)) {
        throw error;
      }
      yield error;
    }
  }
}

/** Reads a schema, and those that it refers to. */
function validator(file: string, format: boolean): Validator {
  const load = (name: string, from: string): { value: Json; file: string } => {
    const place = path.join(path.dirname(from), name);
    return { value: schema(place), file: place };
  };
  return new Validator(schema(file), file, load, format);
}

function schema(file: string): Json {
  try {
    return parse(read(file)).value;
  } catch (error) {
    if (error instanceof JsonError) {
      throw new SchemaError(`${file}:${error.place.line}:${error.place.column}: ${error.message}`);
    }
    throw error;
  }
}

/** Returns the place of a value, or of the nearest value around it. */
function placeOf(document: Document, pointer: string): Place {
  for (let at = pointer; ; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = document.places.get(at);
    if (place !== undefined) {
      return place;
    }
  }
}

function check(file: string, schema: Validator | null, max: number): { count: number; findings: Finding[] } {
  const findings: Finding[] = [];
  let count = 0;
  for (const document of documents(file)) {
    count += 1;
    if (document instanceof JsonError) {
      findings.push({ file, ...document.place, place: "", message: `invalid JSON: ${document.message}` });
      continue;
    }
    for (const { pointer, place } of document.duplicates) {
      findings.push({ file, ...place, place: pointer, message: "the key is a duplicate" });
    }
    const violations: Violation[] = schema === null ? [] : schema.validate(document.value);
    for (const { instance, rule, message } of violations.slice(0, max)) {
      findings.push({ file, ...placeOf(document, instance), place: instance, message, rule });
    }
    if (violations.length > max) {
      const message = `${violations.length - max} more violations; --max shows them`;
      findings.push({ file, ...placeOf(document, ""), place: "", message });
    }
  }
  return { count, findings };
}

function counted(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function main(): number {
  const { files, syntax, format, max, json } = options(process.argv.slice(2));
  const schema = syntax ? null : validator(files[0], format);
  const checked = files.slice(syntax ? 0 : 1).map((file) => check(file, schema, max));
  const findings = checked.flatMap((one) => one.findings);
  const count = checked.reduce((sum, one) => sum + one.count, 0);
  if (json) {
    console.log(JSON.stringify({ documents: count, findings }, null, 2));
  } else {
    for (const { file, line, column, place, message, rule } of findings) {
      const from = rule === undefined ? "" : ` (#${rule})`;
      console.log(`${file}:${line}:${column}: ${place === "" ? "" : `${place}: `}${message}${from}`);
    }
    const summary = `${counted(count, "document")}, ${counted(findings.length, "problem")}`;
    console.log(checked.length === 0 ? "the schema is valid" : summary);
  }
  return findings.length === 0 ? 0 : 1;
}

try {
  process.exitCode = main();
} catch (error) {
  const isKnown = error instanceof UsageError || error instanceof SchemaError;
  if (!isKnown && (error as NodeJS.ErrnoException).code === undefined) {
    throw error;
  }
  console.error(`error: ${(error as Error).message}`);
  if (error instanceof UsageError) {
    console.error(USAGE);
  }
  process.exitCode = 2;
}
