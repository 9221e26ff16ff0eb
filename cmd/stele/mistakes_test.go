package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMistakes: every command says what is wrong with a store that is not there, a file in its place and one that
// is open, with a thread that it does not have, and if nothing is what was named; and its exit code says it too.
func TestMistakes(t *testing.T) {
	good := newWorld(t)
	good.fixture()
	open := newWorld(t)
	held := open.open()
	defer held.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	missing := filepath.Join(dir, "missing")
	// How each command is called on a store, as far as it takes one that must be there; writes: it takes the lock.
	type call struct {
		args   string // STORE is the store, NEW a place that is empty
		writes bool
	}
	calls := map[string][]call{
		"info": {{"STORE", false}}, "stats": {{"STORE", false}}, "threads": {{"STORE", false}}, "log": {{"STORE", false}},
		"show": {{"STORE alice", false}, {"STORE alice --history 3", false}}, "diff": {{"STORE alice a b", false}}, "verify": {{"STORE", false}},
		"compact": {{"STORE", true}}, "erase": {{"STORE --thread alice", false}, {"STORE --thread alice --yes", true}},
		"erase-user": {{"STORE --identity ada", false}, {"STORE --identity ada --yes", true}}, "move-items": {{"STORE --identity ada --yes", true}},
		"release": {{"STORE", true}}, "signal": {{"STORE alice paid", true}}, "salvage": {{"STORE --output NEW", false}}, "backup": {{"STORE NEW", false}},
		"restore": {{"STORE NEW", false}}, "export": {{"ndjson STORE NEW", false}}, "import": nil, "dump": nil, "serve": nil, "studio": nil, "dev": nil, "answer": nil,
		"replica": nil, "version": nil, "help": nil, "completion": nil,
	}
	for _, c := range (&app{}).root().Commands() {
		if _, known := calls[c.Name()]; !known {
			t.Errorf("how is %s called?", c.Name())
		}
	}
	says := func(t *testing.T, args []string, want int, words string) {
		t.Helper()
		out, stderr, code := stele(t, args...)
		if code != want || !regexp.MustCompile(words).MatchString(out+stderr) {
			t.Errorf("stele %q: exit code %d, want %d and %q:\n%s%s", args, code, want, words, out, stderr)
		}
	}
	for name, list := range calls {
		for _, c := range list {
			with := func(store string) []string {
				args := strings.Fields(c.args)
				for i, a := range args {
					args[i] = strings.NewReplacer("STORE", store, "NEW", filepath.Join(t.TempDir(), "new")).Replace(a)
				}
				return append([]string{name}, args...)
			}
			t.Run(name+" "+c.args, func(t *testing.T) {
				says(t, with(missing), exitFailed, regexp.QuoteMeta(missing)+`(.*: not a stele store|.*no such file or directory)`)
				if name != "restore" { // a backup is named by a file, too
					says(t, with(file), exitFailed, regexp.QuoteMeta(file)+` is a file; name the directory of a store`)
				}
				if c.writes {
					says(t, with(open.dir), exitLocked, `is open in another process \(.*\): stop it first\. Commands that only read work beside it`)
				}
			})
		}
	}
	for _, args := range []string{"show STORE nope", "show STORE nope --history 3", "diff STORE nope a b", "signal STORE nope paid", "log STORE --thread nope", "log STORE --thread nope --json --from 7"} {
		says(t, on(good.dir, args), exitFailed, `no thread \\?"nope\\?"; see stele threads `+regexp.QuoteMeta(good.dir))
	}
	for _, args := range []string{"show STORE alice --ns nope", "show STORE alice --ns nope --history 0", "show STORE alice --checkpoint nope", "diff STORE alice nope nope"} {
		says(t, on(good.dir, args), exitFailed, `thread "alice".*checkpoint not found; see stele show .* alice --history 0`)
	}
	for args, words := range map[string]string{
		"threads":                        `name the directory of a store, or a database by --postgres; usage: stele threads \[DIR\]`,
		"show alice":                     `name the directory of a store, or a database by --postgres, then the thread; usage: stele show \[DIR\] THREAD`,
		"signal alice":                   `name the directory of a store, or a database by --postgres, then the thread and the signal; usage: stele signal`,
		"answer":                         `name the URL of a server, then the thread; usage: stele answer URL THREAD`,
		"threads http://localhost:2024":  `the threads of a server are shown by stele studio http://localhost:2024`,
		"show https://example.org alice": `the threads of a server are shown by stele studio https://example.org`,
		"threads " + good.dir + " --status waitin":     `--status: no thread is "waitin"; it is one of \["done" "waiting" "sleeping" "failed" "unfinished"\]`,
		"stats " + good.dir + " --cache -5":            `--cache wants a number of MiB, or 0 for none, not -5`,
		"stats " + good.dir + " --cache 9999999999999": `--cache wants a number of MiB`,
		"erase " + good.dir + " --thread=":             `--thread wants the id of a thread, not an empty one`,
	} {
		says(t, strings.Fields(args), exitFailed, words)
	}
	fresh := filepath.Join(dir, "fresh")
	for args, words := range map[string]string{"--thread nope": `not found: thread "nope"`, "--items no.pe": `not found: items below the namespace "no.pe"`} {
		says(t, on(good.dir, "export ndjson STORE "+fresh+" "+args), exitFailed, words)
	}
	for _, args := range []string{"log STORE --from 100000", "log STORE --thread alice --from 100000"} {
		says(t, on(good.dir, args), exitDone, `no such records in the log`)
	}
	for _, args := range []string{"move-items STORE --identity nope", "move-items STORE --identity nope --yes"} {
		says(t, on(good.dir, args), exitFound, `nothing there`)
	}
	says(t, on(good.dir, "show STORE alice --checkpoint nope"), exitFailed, `thread "alice" .*checkpoint "nope": checkpoint not found`)
	says(t, on(good.dir, "erase STORE"), exitFailed, `say what to erase: --thread ID, --filter KEY=VALUE or --items PREFIX`)
	for _, args := range []string{"erase STORE --thread nope", "erase STORE --thread nope --yes", "erase STORE --items no.pe", "erase STORE --items no.pe --yes",
		"erase STORE --filter user=nope", "erase STORE --filter user=nope --yes"} {
		says(t, on(good.dir, args), exitFound, `nothing matches`)
	}
	says(t, on(good.dir, "erase STORE --thread alice --thread nope"), exitFound, `not there: nope\n`)
	for _, args := range []string{"erase-user STORE --identity nope", "erase-user STORE --identity nope --yes"} { // so it is after an erasure
		says(t, on(good.dir, args), exitFound, `there is nothing of nope in the store`)
	}
	says(t, on(good.dir, "erase STORE --thread alice"), exitDone, `would erase 1 thread`)
}

// on are the arguments of a command, with STORE for the store.
func on(store, args string) []string {
	list := strings.Fields(args)
	list[slices.Index(list, "STORE")] = store
	return list
}
