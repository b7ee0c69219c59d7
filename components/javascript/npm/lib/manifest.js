'use strict';
// The package.json of the project.
const fs = require('node:fs');
const path = require('node:path');

/** Reads a package.json; null if it is missing or invalid. */
function read(folder) {
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  } catch {
    return null;
  }
}

/** Returns the nearest package.json of the working directory and its folder, or null. */
function manifest() {
  for (const folder of above(process.cwd())) {
    const content = read(folder);
    if (content !== null) {
      return { folder, content };
    }
  }
  return null;
}

/** Returns a folder and those above it. */
function above(folder) {
  const parent = path.dirname(folder);
  return parent === folder ? [folder] : [folder, ...above(parent)];
}

module.exports = { above, manifest, read };
