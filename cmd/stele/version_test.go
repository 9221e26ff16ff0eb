package main

import (
	"bytes"
	"regexp"
	"runtime/debug"
	"testing"
)

// buildLine is what differs from build to build.
var buildLine = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^stele .*$`),
	regexp.MustCompile(`(?m)^ *"(version|revision|modified|go|platform)": .*\n`),
}

// TestVersion pins which formats there are; what the build is comes before.
func TestVersion(t *testing.T) {
	for name, args := range map[string][]string{"version": {"version"}, "version-json": {"--json", "version"}} {
		out, errOut, code := stele(t, args...)
		if code != exitDone || errOut != "" {
			t.Errorf("exit code %d: %s", code, errOut)
		}
		if !bytes.Contains([]byte(out), []byte("go1.")) {
			t.Errorf("no version of Go:\n%s", out)
		}
		for _, re := range buildLine {
			out = re.ReplaceAllString(out, "")
		}
		golden(t, name, out)
	}
}

// TestBuild: what a build knows of itself is told.
func TestBuild(t *testing.T) {
	b := buildOf(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}})
	b.Go, b.Platform, b.Formats = "go1.99", "plan9/386", nil
	var out bytes.Buffer
	if printBuild(&printer{w: &out}, b); !bytes.HasPrefix(out.Bytes(), []byte("stele v1.2.3 revision abc with changes go1.99 plan9/386\n")) {
		t.Error(out.String())
	}
	revision = "def+"
	defer func() { revision = "" }()
	out.Reset()
	if printBuild(&printer{w: &out}, buildOf(&debug.BuildInfo{})); !bytes.HasPrefix(out.Bytes(), []byte("stele (devel) revision def with changes go")) {
		t.Error(out.String())
	}
	if b = buildOf(nil); b.Version != "(devel)" || len(b.Formats) == 0 {
		t.Errorf("%+v", b)
	}
}
