package engine

import (
	"math"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// FileNumber is the number in the name of a file of a store: a log file, finished or not, a
// segment or an image. Of another name it is the largest number, and false.
func FileNumber(name string) (base.FileNum, bool) {
	for _, parse := range []func(string) (base.FileNum, bool){base.LogFile.Parse, base.LogTempFile.Parse, base.SegmentFile.Parse, base.ImageFile.Parse} {
		if n, ok := parse(name); ok {
			return n, true
		}
	}
	return math.MaxUint64, false
}

// FileNames are the names of the files of a state: segments, images, log files.
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

// The files that a server keeps in the directory of the store that it serves. They are no
// part of the store: what opens, copies or checks a store passes over them.
const (
	ServerInfo   = "serve.json"  // where it listens
	ServerSocket = "serve.sock"  // a unix socket
	ServerToken  = "serve.token" // what clients send over TCP of the loopback device
)

// TempSuffix ends the name of ServerInfo or ServerToken while it is written.
const TempSuffix = ".tmp"

// isServers reports whether a file of this name is a server's.
func isServers(name string) bool {
	whole := strings.TrimSuffix(name, TempSuffix)
	return name == ServerSocket || whole == ServerInfo || whole == ServerToken
}
