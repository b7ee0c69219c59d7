// Validates resources of KEDA with the schemas of its custom resources:
//     node validate.mjs FOLDER-WITH-NODE_MODULES FILE...
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { parseAllDocuments } = require("yaml");

for (const file of files) {
  const documents = parseAllDocuments(readFileSync(file, "utf8"));
  if (documents.length === 0) throw new Error(`${file}: no resource`);
  for (const document of documents) {
    if (document.errors.length > 0) throw document.errors[0];
    const { apiVersion, kind, ...rest } = document.toJS();
    // What is not a resource of KEDA has no module, and fails here.
    const module = `${folder}/node_modules/@kubernetes-models/keda/${apiVersion}/${kind}.js`;
    const { [kind]: Resource } = await import(pathToFileURL(module));
    new Resource(rest).validate();
  }
}
