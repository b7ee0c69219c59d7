// argv: a.txt b.txt
const fs = require('fs'); const [a, b] = process.argv.slice(2).map((f) => fs.readFileSync(f, 'utf8').split('\n')); const m = a.length, n = b.length; const lcs = Array.from({ length: m + 1 }, () => new Uint32Array(n + 1)); for (let i = m - 1; i >= 0; i--) for (let j = n - 1; j >= 0; j--) lcs[i][j] = a[i] === b[j] ? lcs[i + 1][j + 1] + 1 : Math.max(lcs[i + 1][j], lcs[i][j + 1]); let i = 0, j = 0, changes = 0; while (i < m || j < n) { if (i < m && j < n && a[i] === b[j]) { console.log('  ' + a[i]); i++; j++; } else if (j < n && (i === m || lcs[i][j + 1] >= lcs[i + 1][j])) { console.log('+ ' + b[j++]); changes++; } else { console.log('- ' + a[i++]); changes++; } } process.exitCode = changes ? 1 : 0;
//// file: a.txt
one
two
three
four
//// file: b.txt
zero
one
three
four!
