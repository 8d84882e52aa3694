// What the Python worker is measured against: a page to text by Mozilla's own Readability on linkedom.
// A line of JSON {"path", "url"} in, a line {"milliseconds", "text"} out. Its arguments are the folder of its packages
// and the package that makes the text, each used in the way that is fastest for it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [modules, textMaker] = process.argv.slice(2);
const require = createRequire(resolve(modules, "any.js"));
const { Readability } = require("@mozilla/readability");
const { parseHTML } = require("linkedom");

function withHtmlToText() {
  const { compile } = require("html-to-text");
  const convert = compile({ wordwrap: false });
  return (document) => convert(new Readability(document).parse()?.content ?? "");
}

function withTurndown() {
  const Turndown = require("turndown");
  const turndown = new Turndown();
  return (document) => {
    const article = new Readability(document, { serializer: (element) => element }).parse();
    return article?.content ? turndown.turndown(article.content) : ""; // a tree needs no second parser
  };
}

const textOf = { "html-to-text": withHtmlToText, turndown: withTurndown }[textMaker]();

for await (const line of createInterface({ input: process.stdin })) {
  const { path } = JSON.parse(line);
  const bytes = readFileSync(path);
  const start = performance.now();
  const text = textOf(parseHTML(bytes.toString("utf8")).document);
  console.log(JSON.stringify({ milliseconds: performance.now() - start, text }));
}
