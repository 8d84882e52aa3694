"""The style of a page of episodes. It stands in the page itself, and the page's policy allows it by its hash."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1a; --dim: #5c5b56; --paper: #fcfbf8; --card: #fff; --line: #d9d6cd;
  --link: #1a4fa3; --good: #1d6b3a; --bad: #a52a1a; --mark: #fff0c9; --edge: #a06a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e4de; --dim: #a5a39b; --paper: #191917; --card: #22221f;
  --line: #45443f; --link: #8fb8ff; --good: #79cf98; --bad: #ff9a8a; --mark: #463a16; --edge: #e0b04a; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.25rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
header, main { max-width: 76rem; margin: 0 auto; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .3rem 0 .8rem; }
h2 { font-size: 1.25rem; line-height: 1.35; margin: 0 0 .8rem; white-space: pre-line; }
h3 { font-size: 1rem; margin: 0 0 .6rem; }
section > h3 { margin: 1.2rem 0 .4rem; }
h4 { font-size: .9rem; margin: 1rem 0 .3rem; color: var(--dim); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
section { margin: 2rem 0 0; padding: 1.5rem 0 0; border-top: 1px solid var(--line); }
.note { border-left: .3rem solid var(--edge); padding: .3rem .8rem; margin: .8rem 0; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: start; vertical-align: top; padding: .25rem 1.2rem .25rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--dim); }
td { font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line); }
nav ol { padding-left: 1.6rem; }
nav li { margin: .2rem 0; }
.side { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  align-items: start; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; min-width: 0; }
article.best { border-color: var(--good); }
.tag { font-size: .8rem; font-weight: 600; color: var(--dim); margin-left: .5rem; white-space: nowrap; }
.tag.good { color: var(--good); }
.tag.bad { color: var(--bad); }
.answer p { margin: 0 0 .6rem; max-width: 46rem; }
mark { background: var(--mark); color: inherit; text-decoration: underline dashed var(--edge);
  text-underline-offset: .2em; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.dim { color: var(--dim); font-size: .9rem; margin: .3rem 0; }
.dead { color: var(--bad); text-decoration: line-through; }
.quotes { padding-left: 1.6rem; margin: 0; }
.quotes li { margin: 0 0 .8rem; scroll-margin-top: 1rem; }
.quotes li:target { outline: 2px solid var(--edge); outline-offset: .3rem; border-radius: .2rem; }
blockquote { margin: .3rem 0; padding-left: .8rem; border-left: .2rem solid var(--line); white-space: pre-wrap;
  unicode-bidi: plaintext; max-width: 46rem; }
summary { cursor: pointer; padding: .25rem 0; }
details.other { border-top: 1px solid var(--line); padding: .3rem 0; }
details.other article { margin: .5rem 0; }
.trace { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .4rem; }
.trace ol { padding-left: 0; margin: 0; list-style: none; }
.trace li { border-bottom: 1px solid var(--line); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .82rem; }
code { white-space: pre-wrap; unicode-bidi: isolate; }
pre { white-space: pre-wrap; unicode-bidi: plaintext; margin: .2rem 0 .6rem; padding: .6rem;
  background: var(--paper); border-radius: .3rem; }
""".strip()

_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()

# Nothing is loaded, nothing runs, nothing is sent; pictures are in the page.
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
