package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// versionList is the one list of the releases that stele is compared with.
const versionList = "test/versions.txt"

var (
	// listLine is a line of the list; those of npm are comments, since pip reads the file.
	listLine = regexp.MustCompile(`(?m)^(?:# )?([@a-z][a-z/-]*)==(\S+)$`)
	// otherReleases are meant, and are not those of the list.
	otherReleases = map[string]string{
		"langgraph==0.2.0":                   "writes files of an old format",
		"langgraph==0.2.60":                  "writes files of an old format",
		"langgraph-checkpoint-sqlite==1.0.0": "writes files of an old format",
		"langgraph-checkpoint-sqlite==2.0.1": "writes files of an old format",
		"LangGraph 0.6.0":                    "words of LangGraph's server",
	}
	// measured pages have figures, which are those of the releases that they name.
	measured = []string{"docs/performance/engine.md"}
)

// TestVersions: every script, recording and page names the releases of LangGraph and LangChain
// that the list names, and every file of requirements takes them from it.
func TestVersions(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, versionList))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string][]string{}
	for _, m := range listLine.FindAllStringSubmatch(string(list), -1) {
		versions[m[1]] = append(versions[m[1]], m[2])
	}
	if len(versions) < 10 {
		t.Fatalf("the list names %d packages", len(versions))
	}
	found := 0
	sources(t, func(name string, text []byte) {
		if base := path.Base(name); name == versionList || strings.HasPrefix(base, "package-lock") || slices.Contains(measured, name) {
			return
		}
		if strings.HasSuffix(name, ".gz") {
			text = unzip(t, name, text)
		}
		bad, n := otherVersions(versions, string(text))
		found += n
		for _, said := range bad {
			t.Errorf("%s names %q, which %s does not", name, said, versionList)
		}
		if strings.HasSuffix(name, "requirements.txt") && !strings.Contains(string(text), "-c ") && !strings.Contains(string(text), "-r ") {
			t.Errorf("%s does not take its releases from %s", name, versionList)
		}
	})
	if found < 20 {
		t.Errorf("only %d places name a release", found)
	}
}

// release is a package with a version, as requirements, scripts, JSON and prose write it.
var release = regexp.MustCompile(`(?i)(?:^|[^\w/@.-])(@?lang[a-z_/-]*?)(?:\[\w+\])?(?:_py_version|_version)?"?(==|@|-|: ?"|:"| )(\d+\.\d+\.\d+)`)

// otherVersions are the places of a text that name another version of a package than versions
// does, and how many name one of it.
func otherVersions(versions map[string][]string, text string) (bad []string, n int) {
	for _, m := range release.FindAllStringSubmatch(text, -1) {
		have := versions[strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")]
		said := m[1] + m[2] + m[3]
		if have == nil || otherReleases[said] != "" {
			continue
		}
		n++
		if !slices.Contains(have, m[3]) {
			bad = append(bad, said)
		}
	}
	return bad, n
}

// TestVersionsNotices: a version in each form that files have is compared.
func TestVersionsNotices(t *testing.T) {
	versions := map[string][]string{"langgraph": {"1.0.0"}, "langgraph-checkpoint": {"1.0.0"}, "@langchain/core": {"1.0.0"}, "langchain": {"1.0.0"}}
	for _, form := range []string{
		"langgraph==V", "\"langgraph==V\"", "venv x langgraph-checkpoint==V y", "langgraph[inmem]==V", "LangGraph V's tests", "in langgraph\n langgraph V.",
		`"langgraph": "V"`, `"langgraph_checkpoint":"V"`, `"langgraph_py_version": "V"`, `"@langchain/core": "V"`, "@langchain/core@V", "npm:@langchain/core@V",
		"langchain-V.tar.gz",
	} {
		if bad, n := otherVersions(versions, strings.ReplaceAll(form, "V", "1.0.1")); len(bad) != 1 || n != 1 {
			t.Errorf("%s: another version: got %q of %d", form, bad, n)
		}
		if bad, n := otherVersions(versions, strings.ReplaceAll(form, "V", "1.0.0")); len(bad) != 0 || n != 1 {
			t.Errorf("%s: the version: got %q of %d", form, bad, n)
		}
	}
}
