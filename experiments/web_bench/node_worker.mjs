// What the Python worker is measured against: a page to text by Mozilla's own Readability on linkedom.
// A line of JSON {"path", "url"} in, a line {"milliseconds", "text"} out. Its argument is the folder of its packages.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(resolve(process.argv[2], "any.js"));
const { Readability } = require("@mozilla/readability");
const { parseHTML } = require("linkedom");
const { convert } = require("html-to-text");

for await (const line of createInterface({ input: process.stdin })) {
  const { path } = JSON.parse(line);
  const bytes = readFileSync(path);
  const start = performance.now();
  const { document } = parseHTML(bytes.toString("utf8"));
  const article = new Readability(document).parse();
  const text = convert(article?.content ?? "", { wordwrap: false });
  console.log(JSON.stringify({ milliseconds: performance.now() - start, text }));
}
