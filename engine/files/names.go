package files

import (
	"math"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Number is the number in the name of a file of a store: a log file, finished or not, a
// segment or an image. Of another name it is the largest number, and false.
func Number(name string) (base.FileNum, bool) {
	for _, parse := range []func(string) (base.FileNum, bool){wal.ParseFileName, wal.ParseTempName, segment.ParseFileName, snapshot.ParseImageName} {
		if n, ok := parse(name); ok {
			return n, true
		}
	}
	return math.MaxUint64, false
}

// Names are the names of the files of a state: segments, images, log files.
func Names(st snapshot.State) []string {
	var names []string
	for _, s := range st.Segments {
		names = append(names, segment.FileName(s.Num))
	}
	for _, im := range st.Images {
		names = append(names, snapshot.ImageName(im.Num))
	}
	for _, l := range st.Logs {
		names = append(names, wal.FileName(l.Num))
	}
	return names
}
