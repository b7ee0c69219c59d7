// run: --input-type=module -e "import fs from 'fs'; console.log(typeof fs.readFileSync, typeof require, import.meta.url.slice(0, 5), await 7)"
