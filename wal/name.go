package wal

import (
	"strconv"
	"strings"

	"github.com/stele-go/stele/internal/base"
)

const (
	fileSuffix = ".log"
	// tempSuffix marks a file that is not published: a copy of the end of the log, or
	// room for the next file. It is never part of a log, and removed at the next open.
	tempSuffix = ".log.tmp"
)

// FileName is the name of log file num within the store: "000007.log".
func FileName(num base.FileNum) string { return num.String() + fileSuffix }

// ParseFileName is the inverse of FileName. It reports false for any name that
// FileName does not produce, so that a store never takes a stranger's file for
// its own.
func ParseFileName(name string) (base.FileNum, bool) {
	return parseName(name, fileSuffix)
}

func parseName(name, suffix string) (base.FileNum, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || base.FileNum(n).String() != digits {
		return 0, false
	}
	return base.FileNum(n), true
}

// ParseTempName returns the number in the name of a file that was not published when
// its process died: that of the file it was to become, or RewriteOptions.TempNum.
func ParseTempName(name string) (base.FileNum, bool) {
	return parseName(name, tempSuffix)
}
