#!/usr/bin/env node
import fs from "node:fs/promises";
import { join } from "path";
import sharp from "sharp";
import OpenAI from "openai";
import own from "own/lib/x.js";
import { total } from "./lib/totals.js";
import { gone } from "./lib/gone.js";
import leftPad from "left-pad";

const url = "https://api.example.com/v1";
const other = `https://other.example.com/${total}`;
await fetch(url);
await fetch(other);
const { Worker } = await import("worker_threads");
const { DatabaseSync } = await import("node:sqlite");
