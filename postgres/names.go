package postgres

import (
	"strings"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// checkCast also refuses text that LangGraph's statements cannot read: they cast channels, kinds and
// task ids from text to bytea, where a backslash begins an escape.
func checkCast(field, s string) error {
	if strings.IndexByte(s, '\\') >= 0 {
		return saver.Invalidf(field, "%q has a backslash, with which LangGraph cannot read the checkpoint", s)
	}
	return pgdb.CheckText(field, s)
}

func checkThread(id string) error {
	if err := saver.ValidateThreadID(id); err != nil {
		return err
	}
	return pgdb.CheckText("thread_id", id)
}

func checkConfig(cfg saver.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return pgdb.CheckText("thread_id", cfg.ThreadID, "checkpoint_ns", cfg.Namespace, "checkpoint_id", cfg.CheckpointID)
}

func checkWrites(p *rules.WritesPlan) error {
	if err := pgdb.CheckText("checkpoint_id", p.CheckpointID, "task_path", p.TaskPath); err != nil {
		return err
	}
	if err := checkCast("task_id", p.TaskID); err != nil {
		return err
	}
	for i, channel := range p.Channels {
		if err := checkCast("channel", channel); err != nil {
			return err
		}
		if err := checkCast("kind", p.Values[i].Kind); err != nil {
			return err
		}
	}
	return nil
}

// minted reports whether v looks as if NextVersion made it, or LangGraph's: its fraction
// keeps it apart from every other.
func minted(v saver.Version) bool {
	const digits, fraction = 32, 16
	text := v.String()
	if v.Kind() != saver.VersionString || len(text) < digits+1+fraction || text[digits] != '.' {
		return false
	}
	return strings.Trim(text[:digits], "0123456789") == ""
}
