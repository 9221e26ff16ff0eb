package engine

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// leftovers lists the files that a crash left behind: those with numbers that the manifest handed out
// and does not name, and tails that were being saved. Other files are reported, and stay.
//
// A log file that the manifest does not name and that has records after the end of the log is no
// leftover, whatever its number: a file is named before its first record, so the manifest is an older
// copy of itself, or that of another store.
func (e *Engine) leftovers(st snapshot.State, rec wal.Recovery) ([]string, error) {
	named := map[string]bool{LockName: true, wal.MarkName: true, CacheName: true}
	for _, l := range st.Logs {
		named[base.LogFile.Name(l.Num)] = true
	}
	for _, s := range st.Segments {
		named[base.SegmentFile.Name(s.Num)] = true
	}
	for _, im := range st.Images {
		named[base.ImageFile.Name(im.Num)] = true
	}
	names, err := e.Opts.FS.List(e.Dir)
	if err != nil {
		return nil, err
	}
	e.startNumbers(st.NextFileNum)
	var left []string
	for _, n := range names {
		if named[n] || snapshot.IsManifestName(n) {
			continue
		}
		if isTornTail(n) {
			left = append(left, n)
			continue
		}
		num, own := FileNumber(n)
		if err := e.checkLeftover(n, rec.LastLSN); err != nil && (num < st.NextFileNum || !errors.Is(err, fault.ErrVersion)) {
			return nil, err
		}
		if !own || num >= st.NextFileNum {
			e.report.UnknownFiles = append(e.report.UnknownFiles, n)
			if own {
				e.skipNumber(num)
			}
			continue
		}
		left = append(left, n)
	}
	return left, nil
}

// checkLeftover returns an error if a log file that would be a leftover has records after last.
func (e *Engine) checkLeftover(name string, last base.LSN) error {
	num, isLog := base.LogFile.Parse(name)
	if !isLog {
		return nil
	}
	u, err := wal.Examine(e.Opts.FS, e.Dir, num)
	if err != nil {
		return err
	}
	if u.Copy || u.LastLSN <= last {
		return nil
	}
	return &fault.CorruptionError{File: name, Kind: "log", Offset: -1, Detail: fmt.Sprintf(
		"it holds records up to %d, the log that the manifest names ends with %d; the manifest seems to be an older copy, or that of another store", u.LastLSN, last)}
}

// sweep removes leftovers. It runs only after all files that the manifest names were found.
func (e *Engine) sweep(left []string) {
	for _, n := range left {
		// A reader may have it open where that forbids removal. Its number is never
		// used again.
		if err := e.Files.unlink(n); err != nil {
			e.report.LeftFiles = append(e.report.LeftFiles, n)
			continue
		}
		e.report.RemovedFiles = append(e.report.RemovedFiles, n)
	}
}
