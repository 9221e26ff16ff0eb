#!/usr/bin/env bash
# Section: javascript
# Inputs: wire/js cmd/stele
#
# The client is built from a copy of the tree, installed into an empty project as its users
# install it, and tested there.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
. "$(git rev-parse --show-toplevel)/.ci/machine.sh"
copy=$work/javascript project=$work/javascript.project out=$work/javascript.out

node_20
here=$(git rev-parse --show-prefix)
mkdir -p "$copy" "$project"
cd -- "$root"
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C "$copy"
(
	cd -- "$copy/$here"
	npm install --no-audit --no-fund
	node build.mjs --out "$out" --platform "$(node -p 'process.platform + "-" + process.arch')"
	npx tsc -p test
)
cd -- "$project"
cp -r "$copy/$here"/{src,test,tsconfig.json,vitest.config.ts,README.md} .
echo '{"private": true, "type": "module"}' >package.json
mapfile -t tools < <(node -p 'Object.entries(JSON.parse(fs.readFileSync(process.argv[1])).devDependencies).map((entry) => entry.join("@")).join("\n")' "$copy/$here/package.json")
npm install --no-audit --no-fund "$out"/*.tgz "${tools[@]}" bun@1.4.5 deno@2.9.6
tested() {
	NO_COLOR=1 STELE_BINARY='' PATH="$project/node_modules/.bin:$PATH" "$@" | grep -vE '^$|Start at|Duration'
}
tested node_modules/.bin/vitest run
# The other tests start programs with Node's flags.
any=(node_modules/vitest/vitest.mjs run test/unit test/suite/{graphs,saver,store,validation}.test.ts)
tested bun --bun "${any[@]}"
tested deno run -A "${any[@]}"
