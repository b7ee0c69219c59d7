import { readFileSync } from "node:fs";
import type { Config } from "./types";
import type { Schema } from "zod";
import { helper } from "./helper.js";
import db from "bun:sqlite";
import std from "https://deno.land/std/path/mod.ts";

const config: Config = JSON.parse(readFileSync(process.argv[2], "utf8"));
helper(config as Schema);
