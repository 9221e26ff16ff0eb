package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver/admin"
)

// build says what this command is, and which files it reads and writes.
type build struct {
	Version  string         `json:"version"`            // of the module, or "(devel)"
	Revision string         `json:"revision,omitempty"` // of the source, if the build knows it
	Modified bool           `json:"modified"`           // the source had changes that Revision lacks
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Formats  []admin.Format `json:"formats"`
}

// revision is the commit of the source, with a plus sign behind it if there were changes. Builders of
// packages set it (-ldflags "-X main.revision=…"): Go itself may not know it there.
var revision string

// buildOf describes a build. info is nil if the binary has no build information.
func buildOf(info *debug.BuildInfo) build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: admin.Formats()}
	b.Revision, b.Modified = strings.CutSuffix(revision, "+")
	if info == nil {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is, and which file formats it writes and reads",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo() // nil without
			b := buildOf(info)
			return a.print(b, func(p *printer) { printBuild(p, b) })
		},
	}
}

func printBuild(p *printer, b build) {
	parts := []string{"stele", b.Version}
	if b.Revision != "" {
		parts = append(parts, "revision", b.Revision)
	}
	if b.Modified {
		parts = append(parts, "with changes")
	}
	p.line("%s", strings.Join(append(parts, b.Go, b.Platform), " "))
	p.line("")
	var rows [][]any
	for _, f := range b.Formats {
		rows = append(rows, []any{f.Kind, f.Writes, f.Oldest})
	}
	p.table([]string{"format", "writes", "reads from"}, rows)
}
