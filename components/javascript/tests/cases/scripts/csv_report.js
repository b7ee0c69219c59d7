#!/usr/bin/env node
// argv: sales.csv --by region
'use strict';
const fs = require('fs');
const path = require('path');

function parseCsv(text) {
  const rows = [];
  let row = [], field = '', quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') { field += '"'; i++; }
      else if (c === '"') quoted = false;
      else field += c;
    } else if (c === '"') quoted = true;
    else if (c === ',') { row.push(field); field = ''; }
    else if (c === '\n') { row.push(field); rows.push(row); row = []; field = ''; }
    else if (c !== '\r') field += c;
  }
  if (field || row.length) { row.push(field); rows.push(row); }
  const [header, ...body] = rows;
  return body.map((cells) => Object.fromEntries(header.map((name, i) => [name, cells[i] ?? ''])));
}

const [file, ...rest] = process.argv.slice(2);
const by = rest[rest.indexOf('--by') + 1];
const records = parseCsv(fs.readFileSync(file, 'utf8'));
const totals = new Map();
for (const record of records) {
  const entry = totals.get(record[by]) ?? { count: 0, amount: 0 };
  entry.count++;
  entry.amount += Number(record.amount);
  totals.set(record[by], entry);
}
console.log(`# ${path.basename(file)} by ${by}\n`);
console.log('| ' + by + ' | count | amount | average |\n|---|---:|---:|---:|');
for (const [key, { count, amount }] of [...totals].sort((a, b) => b[1].amount - a[1].amount)) {
  console.log(`| ${key} | ${count} | ${amount.toFixed(2)} | ${(amount / count).toFixed(2)} |`);
}
fs.writeFileSync('report.json', JSON.stringify(Object.fromEntries(totals), null, 2) + '\n');
//// file: sales.csv
region,customer,amount
north,"Smith, John",120.50
south,"The ""Best"" Shop",80
north,Ann,19.5
west,"multi
line",300.25
