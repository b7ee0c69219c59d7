// Finds the links and anchors of a Markdown text.

/** A link: its target as written, the line, and the name of the definition that it needs. */
class Link {
  constructor(target, line, reference) {
    this.target = target;
    this.line = line;
    this.reference = reference;
  }
}

/** Returns the links and the anchors of a text. */
export function parse(text) {
  const lines = text.split(/\r?\n/);
  const { masked, headings } = mask(lines);
  const visible = masked.join("\n");
  const lineOf = lineFinder(visible);
  const links = [];
  const found = (target, at, reference) => links.push(new Link(target, lineOf(at), reference));

  const definitions = new Map();
  for (const match of visible.matchAll(/^ {0,3}\[(?!\^)([^\]\n]+)\]:[ \t]*(?:<([^>\n]*)>|(\S+))/gm)) {
    const name = normalized(match[1]);
    if (!definitions.has(name)) {
      definitions.set(name, match[2] ?? match[3]);
      found(match[2] ?? match[3], match.index);
    }
  }
  for (const { target, at } of inlineLinks(visible)) {
    found(target, at);
  }
  for (const match of visible.matchAll(/(?<!\\)\[([^\[\]\n]+)\]\[([^\[\]\n]*)\]/g)) {
    const name = match[2] === "" ? match[1] : match[2];
    if (!definitions.has(normalized(name))) {
      found(match[0], match.index, name);
    }
  }
  for (const match of visible.matchAll(/<(https?:\/\/[^>\s]+)>/g)) {
    found(match[1], match.index);
  }
  for (const match of visible.matchAll(/(?<![\w(<"'=\]])https?:\/\/[^\s<>"')\]]+/g)) {
    found(match[0].replace(/[.,;:!?*_]+$/, ""), match.index);
  }
  for (const match of visible.matchAll(/<[a-z][a-z0-9]*\b[^>]*?\s(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)')/gi)) {
    found(match[1] ?? match[2], match.index);
  }
  links.sort((a, b) => a.line - b.line);
  return { links, anchors: anchors(headings, visible) };
}

/** Blanks code, comments and front matter, so that positions stay, and collects the headings. */
function mask(lines) {
  const masked = [];
  const headings = [];
  let fence = null;
  let comment = false;
  const front = lines[0] === "---" ? lines.indexOf("---", 1) : -1;
  for (const [index, line] of lines.entries()) {
    if (index <= front) {
      masked.push("");
      continue;
    }
    const mark = /^ {0,3}(?:> ?)*\s*(`{3,}|~{3,})(.*)$/.exec(line);
    if (fence !== null) {
      if (mark !== null && mark[1][0] === fence[0] && mark[1].length >= fence.length && mark[2].trim() === "") {
        fence = null;
      }
      masked.push("");
      continue;
    }
    if (mark !== null && !(mark[1][0] === "`" && mark[2].includes("`")) && !comment) {
      fence = mark[1];
      masked.push("");
      continue;
    }
    const uncommented = blankComments(line, comment);
    comment = uncommented.comment;
    const heading = /^ {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/.exec(uncommented.line);
    const below = lines[index + 1] ?? "";
    if (heading !== null) {
      headings.push(heading[1] ?? "");
    } else if (/^ {0,3}(?:=+|-{2,})[ \t]*$/.test(below) && /^ {0,3}[^\s>|\-*+]/.test(uncommented.line)) {
      headings.push(uncommented.line.trim());
    }
    masked.push(uncommented.line);
  }
  return { masked: blankCodeSpans(masked.join("\n")).split("\n"), headings };
}

/** Blanks the parts of a line in HTML comments. */
function blankComments(line, inside) {
  let out = "";
  let rest = line;
  let comment = inside;
  while (rest !== "") {
    const at = rest.indexOf(comment ? "-->" : "<!--");
    const end = at < 0 ? rest.length : at + (comment ? 3 : 0);
    out += comment ? " ".repeat(end) : rest.slice(0, end);
    rest = rest.slice(end);
    comment = at < 0 ? comment : !comment;
  }
  return { line: out, comment };
}

/** Blanks code spans, which end within their paragraph. */
function blankCodeSpans(text) {
  let out = "";
  let at = 0;
  while (at < text.length) {
    const start = text.indexOf("`", at);
    if (start < 0) {
      break;
    }
    let ticks = start;
    while (text[ticks] === "`") {
      ticks += 1;
    }
    const paragraph = text.indexOf("\n\n", ticks);
    const end = closing(text, ticks, ticks - start, paragraph < 0 ? text.length : paragraph);
    out += text.slice(at, start);
    if (end < 0 || text[start - 1] === "\\") {
      out += text.slice(start, ticks);
      at = ticks;
    } else {
      out += text.slice(start, end).replace(/[^\n]/g, " ");
      at = end;
    }
  }
  return out + text.slice(at);
}

/** Returns the end of the run of exactly `count` backticks before `limit`, or -1. */
function closing(text, from, count, limit) {
  for (let at = text.indexOf("`", from); at >= 0 && at < limit; at = text.indexOf("`", at)) {
    let end = at;
    while (text[end] === "`") {
      end += 1;
    }
    if (end - at === count) {
      return end;
    }
    at = end;
  }
  return -1;
}

/** Yields the targets of `[text](target "title")`. */
function* inlineLinks(text) {
  for (let at = text.indexOf("]("); at >= 0; at = text.indexOf("](", at + 2)) {
    if (text[at - 1] === "\\") {
      continue;
    }
    const rest = text.slice(at + 2, at + 2 + 2000).replace(/^[ \t]*\n?[ \t]*/, "");
    const target = rest[0] === "<" ? /^<([^<>\n]*)>/.exec(rest)?.[1] : balanced(rest);
    if (target !== undefined) {
      yield { target, at };
    }
  }
}

/** Returns the text up to the bracket that closes it, or to a space. */
function balanced(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === "\\") {
      at += 1;
    } else if (c === "(") {
      depth += 1;
    } else if (c === ")" && depth === 0) {
      return text.slice(0, at);
    } else if (c === ")") {
      depth -= 1;
    } else if (/\s/.test(c)) {
      return /^\s+(?:"[^"]*"|'[^']*'|\([^)]*\))?\s*\)/.test(text.slice(at)) ? text.slice(0, at) : undefined;
    }
  }
  return undefined;
}

/** Returns the anchors of headings, as GitHub makes them, and of elements. */
function anchors(headings, visible) {
  const found = new Set();
  const counts = new Map();
  for (const heading of headings) {
    const own = /\s*\{#([^}\s]+)\}\s*$/.exec(heading);
    if (own !== null) {
      found.add(own[1]);
    }
    const name = slug(own === null ? heading : heading.slice(0, own.index));
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    found.add(count === 0 ? name : `${name}-${count}`);
  }
  for (const match of visible.matchAll(/<[a-z][a-z0-9]*\b[^>]*?\s(?:id|name)\s*=\s*["']?([^"'\s>]+)/gi)) {
    found.add(match[1]);
  }
  return found;
}

/** Returns the anchor of a heading. */
export function slug(heading) {
  return heading
    .replace(/!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])/g, "$1")
    .replace(/<[^>]*>/g, "")
    .replace(/(\*+|~~|`+)/g, "")
    .replace(/(^|\s)_+(\S(?:.*?\S)?)_+(?=\s|$)/g, "$1$2")
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replace(/ /g, "-");
}

function normalized(name) {
  return name.trim().replace(/\s+/g, " ").toLowerCase();
}

/** Returns a function from positions to lines. */
function lineFinder(text) {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) {
    starts.push(at + 1);
  }
  return (position) => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= position) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low + 1;
  };
}
