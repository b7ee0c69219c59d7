'use strict';
// Whether a version is in a range of npm, such as `^1.2.0 || >=2 <3`.

/** Checks a version against a range. Anything else, such as a tag or an address, accepts every version. */
function satisfies(version, range) {
  const parsed = parse(version);
  const alternatives = range.split('||').map(comparators);
  if (parsed === null || alternatives.includes(null)) {
    return true;
  }
  return alternatives.some((all) => all.every(([operator, bound]) => holds(operator, compare(parsed, bound))));
}

/** Returns the bounds of a range without `||`; null for anything else. */
function comparators(text) {
  const spaced = text.trim().replace(/([<>=~^]+)\s+/g, '$1');
  const hyphen = /^(\S+)\s+-\s+(\S+)$/.exec(spaced);
  if (hyphen !== null) {
    const [from, to] = [partial(hyphen[1]), partial(hyphen[2])];
    return from === null || to === null ? null : [['>=', filled(from)], ...upTo(to)];
  }
  const all = [];
  for (const word of spaced.split(/\s+/).filter((word) => word !== '')) {
    const match = /^(\^|~>?|>=|<=|>|<|=)?v?(.*)$/.exec(word);
    const parts = partial(match[2]);
    if (parts === null) {
      return null;
    }
    all.push(...bounds(match[1] ?? '', parts));
  }
  return all;
}

function bounds(operator, parts) {
  const from = filled(parts);
  if (parts.length === 0) {
    return [];
  }
  switch (operator) {
    case '^': {
      // Up to the next version that differs in the first number that is not zero.
      const first = from.findIndex((number) => number > 0);
      return [['>=', from], ['<', next(from, first < 0 ? parts.length - 1 : Math.min(first, parts.length - 1))]];
    }
    case '~':
    case '~>':
      return [['>=', from], ['<', next(from, Math.min(parts.length - 1, 1))]];
    case '>':
      return parts.length < 3 ? [['>=', next(from, parts.length - 1)]] : [['>', from]];
    case '>=':
    case '<':
      return [[operator, from]];
    case '<=':
      return upTo(parts);
    default:
      return [['>=', from], ...upTo(parts)];
  }
}

function upTo(parts) {
  return parts.length < 3 ? [['<', next(filled(parts), parts.length - 1)]] : [['<=', parts]];
}

/** Returns the numbers of `1`, `1.2`, `1.x` or `1.2.3`; null for anything else. */
function partial(text) {
  if (text === '' || text === '*' || text === 'x' || text === 'latest') {
    return [];
  }
  const match = /^(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+].*)?$/.exec(text);
  if (match === null) {
    return null;
  }
  const parts = match.slice(1).filter((part) => part !== undefined);
  const open = parts.findIndex((part) => !/^\d+$/.test(part));
  return parts.slice(0, open < 0 ? parts.length : open).map(Number);
}

function parse(version) {
  const match = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version ?? '');
  return match === null ? null : match.slice(1, 4).map(Number);
}

function filled(parts) {
  return [0, 1, 2].map((at) => parts[at] ?? 0);
}

function next(parts, at) {
  return parts.map((number, index) => (index < at ? number : index === at ? number + 1 : 0));
}

function compare(a, b) {
  const at = [0, 1, 2].find((index) => a[index] !== b[index]);
  return at === undefined ? 0 : a[at] - b[at];
}

function holds(operator, order) {
  switch (operator) {
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
    case '<':
      return order < 0;
    default:
      return order <= 0;
  }
}

module.exports = { satisfies };
