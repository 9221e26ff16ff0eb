package postgres

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// checkText refuses what a column of type text, or a string in JSON, cannot hold.
func checkText(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return saver.Invalidf(field, "%q is not text that PostgreSQL can store; use UTF-8 without U+0000", s)
	}
	return nil
}

// checkCast refuses besides what LangGraph's statements cannot read: they cast channels,
// kinds and task ids from text to bytea, where a backslash begins an escape.
func checkCast(field, s string) error {
	if strings.IndexByte(s, '\\') >= 0 {
		return saver.Invalidf(field, "%q has a backslash, with which LangGraph cannot read the checkpoint", s)
	}
	return checkText(field, s)
}

func checkThread(id string) error {
	if err := saver.ValidateThreadID(id); err != nil {
		return err
	}
	return checkText("thread_id", id)
}

func checkConfig(cfg saver.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	for field, s := range map[string]string{"thread_id": cfg.ThreadID, "checkpoint_ns": cfg.Namespace, "checkpoint_id": cfg.CheckpointID} {
		if err := checkText(field, s); err != nil {
			return err
		}
	}
	return nil
}

func checkWrites(p *rules.WritesPlan) error {
	if err := checkText("checkpoint_id", p.CheckpointID); err != nil {
		return err
	}
	if err := checkText("task_path", p.TaskPath); err != nil {
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

// lockKeys are the keys of threads in the order in which every call takes them.
func lockKeys(schema string, threadIDs []string) []int64 {
	keys := make([]int64, 0, len(threadIDs))
	for _, id := range threadIDs {
		keys = append(keys, lockKey(schema, id))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// numbered puts parameter n in the place of each question mark.
func numbered(sql, n string) string { return strings.ReplaceAll(sql, "?", n) }
