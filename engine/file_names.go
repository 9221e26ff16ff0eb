package engine

import (
	"math"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// FileNumber returns the number in the name of a file of a store: a log file, finished or not, a
// segment or an image. For another name it returns the largest number, and false.
func FileNumber(name string) (base.FileNum, bool) {
	for _, parse := range []func(string) (base.FileNum, bool){base.LogFile.Parse, base.LogTempFile.Parse, base.SegmentFile.Parse, base.ImageFile.Parse} {
		if n, ok := parse(name); ok {
			return n, true
		}
	}
	return math.MaxUint64, false
}

// FileNames returns the names of the files of a state: segments, images, log files.
func FileNames(st snapshot.State) []string {
	var names []string
	for _, s := range st.Segments {
		names = append(names, base.SegmentFile.Name(s.Num))
	}
	for _, im := range st.Images {
		names = append(names, base.ImageFile.Name(im.Num))
	}
	for _, l := range st.Logs {
		names = append(names, base.LogFile.Name(l.Num))
	}
	return names
}

// ServedPrefix begins the names of files that are no part of a store: a server of the store keeps them in
// its directory, so that clients find it. See package wire/server.
const ServedPrefix = "serve."

// Beside reports whether a file of this name may lie in the directory of a store without being part of
// it: a server's file, the mark of a follower, or one that the system keeps in the root of a volume.
func Beside(name string) bool {
	return strings.HasPrefix(name, ServedPrefix) || name == CacheName || name == "lost+found"
}
