#!/usr/bin/env node
// Checks the links of Markdown files.
import fs from "node:fs";
import path from "node:path";
import process from "node:process";

import { parse } from "./markdown.mjs";

const USAGE = `usage: check_links.mjs [FILE | FOLDER]... [--root DIR] [--html] [--external] [--json]`;
const SKIPPED = new Set(["node_modules", "target", "dist", "build", "vendor"]);
const MARKDOWN = /\.(?:md|markdown)$/i;
const REQUESTS_AT_ONCE = 4;
const REQUEST_SECONDS = 15;

class UsageError extends Error {}

function options(args) {
  const found = { places: [], root: ".", html: false, external: false, json: false };
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at];
    if (word === "--root") {
      at += 1;
      if (args[at] === undefined) {
        throw new UsageError("--root needs a folder");
      }
      found.root = args[at];
    } else if (["--html", "--external", "--json"].includes(word)) {
      found[word.slice(2)] = true;
    } else if (word.startsWith("-")) {
      throw new UsageError(`unknown option ${word}`);
    } else {
      found.places.push(word);
    }
  }
  if (found.places.length === 0) {
    found.places.push(found.root);
  }
  return found;
}

/** Returns the Markdown files at some places, sorted. */
function markdownFiles(places) {
  const files = new Set();
  for (const place of places) {
    if (fs.statSync(place).isDirectory()) {
      for (const file of allFiles(place).filter((name) => MARKDOWN.test(name))) {
        files.add(file);
      }
    } else {
      files.add(path.normalize(place));
    }
  }
  return [...files].sort();
}

/** Checks links against the files of a folder. */
class Checker {
  constructor(root, html) {
    this.root = path.resolve(root);
    this.html = html;
    this.pages = new Map();
    this.external = new Map();
    this.links = 0;
  }

  /** Returns the links and anchors of a Markdown file. */
  page(file) {
    let page = this.pages.get(file);
    if (page === undefined) {
      page = parse(fs.readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
      this.pages.set(file, page);
    }
    return page;
  }

  /** Returns the broken links of a file that need no request. */
  check(file) {
    const broken = [];
    for (const link of this.page(path.resolve(file)).links) {
      this.links += 1;
      const problem =
        link.reference === undefined
          ? this.problem(path.resolve(file), link, file)
          : `there is no definition [${link.reference}]: ...`;
      if (problem !== null) {
        broken.push({ file, line: link.line, target: link.target, problem });
      }
    }
    return broken;
  }

  problem(file, { target, line }, shown) {
    if (/^https?:/i.test(target)) {
      const address = target.replace(/#.*$/s, "");
      const places = this.external.get(address) ?? [];
      places.push({ file: shown, line, target });
      this.external.set(address, places);
      return null;
    }
    if (/^[a-z][a-z0-9+.-]*:/i.test(target) || target.startsWith("//")) {
      return null;
    }
    const [, name, anchor] = /^([^#?]*)(?:\?[^#]*)?(?:#(.*))?$/s.exec(target);
    const decoded = decode(name);
    if (decoded === null) {
      return "the path is not a valid URL";
    }
    const place = decoded.startsWith("/")
      ? path.join(this.root, decoded)
      : path.resolve(path.dirname(file), decoded);
    if (name !== "" && place !== this.root && !place.startsWith(this.root + path.sep)) {
      return "it leads out of the root";
    }
    const found = name === "" ? file : this.existing(place);
    if (found === null) {
      return `there is no such file${this.suggestion(place, file)}`;
    }
    return anchor === undefined || anchor === "" ? null : this.anchorProblem(found, anchor);
  }

  /** Returns the file or folder that a path means. */
  existing(place) {
    const candidates = [place];
    if (this.html && place.endsWith(".html")) {
      candidates.push(place.replace(/\.html$/, ".md"));
    }
    for (const candidate of candidates) {
      const stat = fs.statSync(candidate, { throwIfNoEntry: false });
      if (stat === undefined) {
        continue;
      }
      if (!stat.isDirectory()) {
        return candidate;
      }
      const indexes = ["README.md", "index.md"].map((name) => path.join(candidate, name));
      return indexes.find((index) => fs.existsSync(index)) ?? candidate;
    }
    return null;
  }

  anchorProblem(file, anchor) {
    // GitHub has anchors for the lines of other files.
    if (!MARKDOWN.test(file)) {
      return null;
    }
    const { anchors } = this.page(file);
    const name = decode(anchor) ?? anchor;
    if (anchors.has(name) || anchors.has(name.toLowerCase()) || name === "top") {
      return null;
    }
    const near = nearest(name, [...anchors]);
    return `there is no heading #${name}${near === null ? "" : `; did you mean #${near}?`}`;
  }

  /** Suggests a file of the same name elsewhere, or of a similar name in the same folder. */
  suggestion(place, file) {
    this.names ??= allFiles(this.root);
    const same = this.names.filter((name) => path.basename(name) === path.basename(place));
    const folder = path.dirname(place);
    const siblings = this.names.filter((name) => path.dirname(name) === folder);
    const near = nearest(path.basename(place), siblings.map((name) => path.basename(name)));
    const found = same.length === 1 ? same[0] : near === null ? null : path.join(folder, near);
    return found === null ? "" : `; did you mean ${path.relative(path.dirname(file), found)}?`;
  }

  /** Requests each external address once, and returns the broken links. */
  async checkExternal() {
    const broken = [];
    const waiting = [...this.external];
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [address, places] = next;
        const problem = await requestProblem(address);
        if (problem !== null) {
          broken.push(...places.map((place) => ({ ...place, problem })));
        }
      }
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, work));
    return broken;
  }
}

/** Returns why an address is no good link, or null. */
async function requestProblem(address) {
  let status = 0;
  // Some servers only answer GET.
  for (const method of ["HEAD", "GET"]) {
    try {
      const response = await fetch(address, { method, signal: AbortSignal.timeout(REQUEST_SECONDS * 1000) });
      await response.body?.cancel();
      status = response.status;
    } catch (error) {
      const cause = error.cause?.message ?? error.message;
      return `it cannot be requested: ${cause}`;
    }
    if (status < 400) {
      return null;
    }
  }
  return `the server answers ${status}`;
}

/** Returns the files below a folder, except those in folders that are skipped. */
function allFiles(root) {
  const files = [];
  const visit = (folder) => {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const place = path.join(folder, entry.name);
      if (entry.isDirectory()) {
        if (!entry.name.startsWith(".") && !SKIPPED.has(entry.name)) {
          visit(place);
        }
      } else {
        files.push(place);
      }
    }
  };
  visit(root);
  return files;
}

/** Returns the name that differs least, if it differs little. */
function nearest(name, names) {
  let best = null;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const other of names) {
    const distance = Math.abs(other.length - name.length) < least ? edits(name, other) : least;
    if (distance < least) {
      [best, least] = [other, distance];
    }
  }
  return best;
}

/** Returns the number of characters to insert, remove or replace. */
function edits(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(next[j - 1] + 1, row[j] + 1, replaced));
    }
    row = next;
  }
  return row[b.length];
}

function counted(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

async function main() {
  const { places, root, html, external, json } = options(process.argv.slice(2));
  const files = markdownFiles(places);
  const checker = new Checker(root, html);
  const broken = files.flatMap((file) => checker.check(file));
  if (external) {
    broken.push(...(await checker.checkExternal()));
    broken.sort((a, b) => (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1));
  }
  const unrequested = external ? 0 : checker.external.size;
  if (json) {
    console.log(JSON.stringify({ files: files.length, links: checker.links, unrequested, broken }, null, 2));
  } else {
    for (const { file, line, target, problem } of broken) {
      console.log(`${file}:${line}: ${target}: ${problem}`);
    }
    const left = unrequested === 0 ? "" : `, ${counted(unrequested, "external link")} not requested`;
    console.log(`${counted(files.length, "file")}, ${counted(checker.links, "link")}, ${broken.length} broken${left}`);
  }
  process.exitCode = broken.length === 0 ? 0 : 1;
}

try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError) && error.code === undefined) {
    throw error;
  }
  console.error(`error: ${error.message}`);
  if (error instanceof UsageError) {
    console.error(USAGE);
  }
  process.exitCode = 2;
}
