console.log(require('csv-parse/sync').parse('x\ty', { delimiter: '\t' })[0], require('csv-stringify/sync').stringify([['z']]).trim());
