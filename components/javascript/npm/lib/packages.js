'use strict';
// The packages that are available: in node_modules, in --site-packages and in the package set.
const fs = require('node:fs');
const path = require('node:path');

const { above, read } = require('./manifest.js');
const { satisfies } = require('./versions.js');

/** Returns the folders with packages, the nearest first. */
function folders() {
  const own = above(process.cwd()).map((folder) => path.join(folder, 'node_modules'));
  const provided = (process.env.SKILLHOST_SITE_PACKAGES ?? '').split(':').filter((folder) => folder !== '');
  // This file is in the package `npm` of the set.
  return [...own, ...provided, path.resolve(__dirname, '../..')];
}

/** Splits `name@range` into a name and a range. */
function wanted(word) {
  const at = word.indexOf('@', 1);
  return at < 0 ? [word, '*'] : [word.slice(0, at), word.slice(at + 1)];
}

/** Returns the folder and content of an available package, or null. */
function find(name) {
  for (const folder of folders()) {
    const content = read(path.join(folder, name));
    if (content !== null) {
      return { folder: path.join(folder, name), content };
    }
  }
  return null;
}

/** Returns the needs that no available package meets. Types have no effect when a program runs. */
function missing(needs) {
  return needs
    .filter(([name]) => !name.startsWith('@types/') && name !== 'typescript')
    .map(([name, range]) => ({ name, range, found: find(name)?.content.version ?? null }))
    .filter(({ range, found }) => found === null || !satisfies(found, range));
}

/** Returns all available packages, by name. */
function list() {
  const found = new Map();
  for (const folder of folders()) {
    for (const name of entries(folder)) {
      const content = read(path.join(folder, name));
      if (content !== null && !found.has(name)) {
        found.set(name, { name, version: content.version });
      }
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function entries(folder) {
  const names = (at) => {
    try {
      return fs.readdirSync(at).filter((name) => !name.startsWith('.'));
    } catch {
      return [];
    }
  };
  return names(folder).flatMap((name) =>
    name.startsWith('@') ? names(path.join(folder, name)).map((inner) => `${name}/${inner}`) : [name],
  );
}

/** Returns the file of a program: of the package of its name, or of any package that has it. */
function program(name) {
  const own = find(name);
  const file = own === null ? null : binary(own, name.split('/').pop());
  if (file !== null) {
    return file;
  }
  for (const { name: other } of list()) {
    const found = find(other);
    if (found !== null && typeof found.content.bin === 'object' && found.content.bin[name] !== undefined) {
      return path.join(found.folder, found.content.bin[name]);
    }
  }
  return null;
}

function binary({ folder, content }, name) {
  const { bin } = content;
  if (typeof bin === 'string') {
    return path.join(folder, bin);
  }
  const names = Object.keys(bin ?? {});
  const chosen = names.includes(name) ? name : names.length === 1 ? names[0] : null;
  return chosen === null ? null : path.join(folder, bin[chosen]);
}

module.exports = { find, list, missing, program, wanted };
