package admin

import (
	"strconv"

	"github.com/stele-go/stele/saver/layout"
)

// entryName names an entry for people. kind is the kind of its partition.
func entryName(kind, key string) string {
	if kind == "run" {
		return "in thread " + key
	}
	k, ok := layout.ParseEntry(key)
	if !ok || kind != "thread" {
		return strconv.Quote(key)
	}
	name := k.Kind + " " + k.CheckpointID
	if k.Namespace != "" {
		name += " in " + strconv.Quote(k.Namespace)
	}
	return name
}

// versionText is a packed channel version for people.
func versionText(tag string) string {
	v, err := layout.ParseVersion(tag)
	if err != nil {
		return strconv.Quote(tag)
	}
	return v.String()
}
