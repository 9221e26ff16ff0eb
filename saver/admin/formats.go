package admin

import (
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Format is a kind of file, with the format version that this build writes and the oldest
// version that it reads. It reads all versions between them. docs/format describes them.
type Format struct {
	Kind   string `json:"kind"`
	Writes uint32 `json:"writes"`
	Oldest uint32 `json:"reads_from"`
}

// Formats are the formats of this build. "store" is the version in the manifest; it covers all
// files.
func Formats() []Format {
	return []Format{
		{"store", snapshot.FormatVersion, 1}, {"manifest", snapshot.FormatVersion, 1}, {"image", snapshot.ImageVersion, 1}, {"log", wal.FormatVersion, 1},
		{"segment", segment.FormatVersion, 1}, {"backup", backup.FormatVersion, 1},
	}
}
