import fg from 'fast-glob'; import { globSync, glob } from 'glob'; import { minimatch } from 'minimatch'; import micromatch from 'micromatch'; console.log((await fg(['**/*.txt', '!**/skip*'])).sort(), fg.sync('d/*', { onlyFiles: false }).sort(), globSync('**/*.{txt,md}').sort(), (await glob('d/**', { nodir: true })).sort(), minimatch('a/b.js', '**/*.js'), minimatch('.hid', '*'), micromatch(['a.js', 'b.md'], '*.js'), micromatch.isMatch('x/y', 'x/*'));
//// file: a.txt
//// file: d/b.txt
//// file: d/e/c.md
//// file: d/skip.txt
