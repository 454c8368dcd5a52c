// Checks Kubernetes objects by the schemas of Kubernetes and of the Prometheus operator, as npm's kubernetes-models has
// them: schemas.mjs FILE.json... Each file holds a list of objects. The schemas let unknown fields pass, as a cluster
// does: for these it writes objects.ts, which a TypeScript compiler refuses where an object has a field too many.
import { readFileSync, writeFileSync } from "node:fs";

const packages = { "monitoring.coreos.com": "@kubernetes-models/prometheus-operator" };
const lines = [];
for (const file of process.argv.slice(2)) {
  for (const object of JSON.parse(readFileSync(file, "utf8"))) {
    const group = object.apiVersion.split("/")[0];
    const module = `${packages[group] ?? "kubernetes-models"}/${object.apiVersion}/${object.kind}`;
    const models = await import(module);
    try {
      new models[object.kind](object).validate();
    } catch (error) {
      console.error(`${file}: ${object.kind} ${object.metadata?.name}: ${error.message}`);
      process.exitCode = 1;
    }
    const name = `object${lines.length}`;
    lines.push(`export const ${name}: import("${module}").I${object.kind} = ${JSON.stringify(object, null, 1)};`);
  }
}
writeFileSync("objects.ts", lines.join("\n") + "\n");
